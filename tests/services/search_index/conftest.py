from tests.postgres import database_url as database_url
