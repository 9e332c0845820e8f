"""The PostgreSQL driver: connections, transactions, write locks, migrations, row-level security. Knows no tables of its
users. psycopg is the extra `postgres`: nothing here is imported before a database URL is given."""
