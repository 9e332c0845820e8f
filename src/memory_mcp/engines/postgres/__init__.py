"""The PostgreSQL driver: connections, transactions, write locks, migrations, row-level security. Knows no tables of
the families. psycopg is the extra `postgres`: nothing here is imported unless a database URL is given."""
