"""All tasks. They run in this order, on one server."""

from benchmarks.agents.data_tasks import DATA_TASKS
from benchmarks.agents.text_tasks import TEXT_TASKS

TASKS = (*TEXT_TASKS, *DATA_TASKS)
