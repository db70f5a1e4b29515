"""Who changed what, written down by the database itself: triggers in a schema of their own, which flock knows nothing of.

Each row names the epoch of the gateway on whose connection the change was made. The server knows it from the statement by
which that connection looks if its gateway was ended. The time is that for which the machine runs, which no clock's jump changes
and which clients and sandboxes can tell too.
"""

TABLES = {
    # Signs of life change only a time.
    "gateway": ("INSERT OR DELETE", "UPDATE", "OLD.ended_at IS DISTINCT FROM NEW.ended_at OR OLD.run <> NEW.run"),
    "lease": ("INSERT OR DELETE", "UPDATE", "OLD.epoch IS DISTINCT FROM NEW.epoch OR OLD.token <> NEW.token"),
    "turn": ("INSERT OR DELETE", "UPDATE", "OLD.state <> NEW.state"),
    "message": ("INSERT OR DELETE", "UPDATE", "true"),
    # Each call of a model, which is set aside before it begins.
    "usage": ("INSERT", "UPDATE", "false"),
    # What an agent was given. The row itself is made with the member.
    "delivery": ("DELETE", "UPDATE",
                 "OLD.inflight_turn IS DISTINCT FROM NEW.inflight_turn OR OLD.delivered_seq <> NEW.delivered_seq"),
    # The configuration that all share.
    "gateway_group": ("INSERT OR DELETE", "UPDATE", "true"),
}


def sql(schema="flock"):
    """The statements that begin the trace."""
    triggers = []
    for table, (whole, change, when) in TABLES.items():
        for name, event, condition in ((f"trace_{table}", whole, ""), (f"trace_{table}_change", change, f"WHEN ({when})")):
            triggers.append(f"CREATE TRIGGER {name} AFTER {event} ON {schema}.{table} FOR EACH ROW {condition} "
                            f"EXECUTE FUNCTION fleet.note();")
    # Who is there and owns what when the trace begins.
    known = [f"INSERT INTO fleet.trace (up, subject, change, after) SELECT fleet.up(), '{table}', 'START', "
             f"to_jsonb(found) FROM (SELECT * FROM {schema}.{table} ORDER BY {order}) AS found;"
             for table, order in (("gateway", "epoch"), ("lease", "kind, subject"))]
    return f"""
        BEGIN;
        LOCK TABLE {", ".join(f"{schema}.{table}" for table in TABLES)} IN SHARE ROW EXCLUSIVE MODE;
        CREATE SCHEMA fleet;
        CREATE TABLE fleet.trace (n BIGSERIAL PRIMARY KEY, up DOUBLE PRECISION NOT NULL, epoch BIGINT,
            subject TEXT NOT NULL, change TEXT NOT NULL, before JSONB, after JSONB);
        CREATE FUNCTION fleet.up() RETURNS DOUBLE PRECISION LANGUAGE sql AS $$
            SELECT CAST(split_part(pg_read_file('/proc/uptime'), ' ', 1) AS DOUBLE PRECISION) $$;
        CREATE FUNCTION fleet.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
        DECLARE writer BIGINT;
        BEGIN
            SELECT CAST(substring(statement FROM 'epoch = ([0-9]+)') AS BIGINT) INTO writer
                FROM pg_prepared_statements WHERE name = 'fence';
            INSERT INTO fleet.trace (up, epoch, subject, change, before, after) VALUES
                (fleet.up(), writer, TG_TABLE_NAME, TG_OP,
                 CASE WHEN TG_OP = 'INSERT' THEN NULL ELSE to_jsonb(OLD) END,
                 CASE WHEN TG_OP = 'DELETE' THEN NULL ELSE to_jsonb(NEW) END);
            RETURN NULL;
        END $$;
        {" ".join(triggers)}
        {" ".join(known)}
        COMMIT;
    """
