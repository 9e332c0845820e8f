from tests.engines.chdb.outside import outside
from tests.families.portals.conftest import app, data_dir, engines_that_leave_soon, options, portals_url

__all__ = ["app", "data_dir", "engines_that_leave_soon", "options", "outside", "portals_url"]
