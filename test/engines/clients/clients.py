"""psycopg2, psycopg 3, asyncpg and SQLAlchemy at the SQL port: `clients.py <driver> <dsn>`. What is not as it should be ends with a traceback."""
import asyncio
import io
import sys

driver, dsn = sys.argv[1:]
table = f"of_{driver}"
create = f"CREATE TABLE {table} (id INT PRIMARY KEY, v TEXT) WITH (connector = 'webhook')"
bad = f"INSERT INTO {table} VALUES (1, 'again')"


def with_psycopg2():
    import psycopg2

    connection = psycopg2.connect(dsn)
    cursor = connection.cursor()
    cursor.execute(create)
    cursor.execute(f"INSERT INTO {table} VALUES (%s, %s)", (1, "Zoë ☕"))
    connection.commit()
    try:
        cursor.execute(bad)
        raise AssertionError("a second row of the key")
    except psycopg2.errors.UniqueViolation:
        connection.rollback()
    cursor.copy_from(io.StringIO("2\ttwo\n3\tthree\n"), table)
    connection.commit()
    named = connection.cursor(name="some")
    named.execute(f"SELECT v FROM {table} ORDER BY id")
    assert [v for (v,) in named.fetchall()] == ["Zoë ☕", "two", "three"]
    connection.close()


def with_psycopg():
    import psycopg

    with psycopg.connect(dsn, prepare_threshold=1) as connection:
        connection.execute(create)
        with connection.pipeline():
            for id in range(10):
                connection.execute(f"INSERT INTO {table} VALUES (%s, %s)", (id, "Zoë ☕"))
        connection.commit()
        try:
            connection.execute(bad)
            raise AssertionError("a second row of the key")
        except psycopg.errors.UniqueViolation:
            connection.rollback()
        with connection.cursor() as cursor:
            with cursor.copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:
                copy.set_types(["int4", "text"])
                for id in range(10, 1010):
                    copy.write_row((id, "x" * 100))
        connection.commit()
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (1010,)


async def with_asyncpg():
    import asyncpg

    connection = await asyncpg.connect(dsn)
    await connection.execute(create)
    await connection.executemany(f"INSERT INTO {table} VALUES ($1, $2)", [(id, "Zoë ☕") for id in range(10)])
    try:
        await connection.execute(bad)
        raise AssertionError("a second row of the key")
    except asyncpg.UniqueViolationError:
        pass
    await connection.copy_records_to_table(table, records=[(id, "x") for id in range(10, 1010)])
    async with connection.transaction():
        rows = [row async for row in connection.cursor(f"SELECT id FROM {table}", prefetch=100)]
    assert len(rows) == 1010
    await connection.close()


def with_sqlalchemy():
    import sqlalchemy as sa

    engine = sa.create_engine(dsn.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(sa.text(create))
    # What there is, as its reflection reads PostgreSQL's catalog.
    reflected = sa.Table(table, sa.MetaData(), autoload_with=engine)
    assert [column.name for column in reflected.primary_key] == ["id"]
    with engine.begin() as connection:
        connection.execute(reflected.insert(), [{"id": id, "v": "Zoë ☕"} for id in range(1010)])
    try:
        with engine.begin() as connection:
            connection.execute(sa.text(bad))
        raise AssertionError("a second row of the key")
    except sa.exc.IntegrityError:
        pass
    with engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(reflected)) == 1010
    engine.dispose()


ways = {"psycopg2": with_psycopg2, "psycopg": with_psycopg, "asyncpg": lambda: asyncio.run(with_asyncpg()), "sqlalchemy": with_sqlalchemy}
ways[driver]()
