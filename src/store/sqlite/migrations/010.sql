-- Who took back what a request granted: it counts as a denial of the same for that agent until a person says otherwise.
-- It is empty where the grant only ended with its agent.
ALTER TABLE request ADD COLUMN revoked_by TEXT;
UPDATE request SET revoked_by = (
    SELECT actor FROM audit WHERE action = 'request.revoke' AND subject = request.id AND actor LIKE 'human:%'
    ORDER BY audit.id DESC LIMIT 1
) WHERE revoked_at IS NOT NULL;

-- 1 while it waits for the sysadmin's word.
ALTER TABLE request ADD COLUMN asks_sysadmin INTEGER NOT NULL DEFAULT 0;

-- 1 on the hosts that were granted before a person was asked about new ones: they stay, and are listed once.
ALTER TABLE request ADD COLUMN to_list INTEGER NOT NULL DEFAULT 0;
UPDATE request SET to_list = 1 WHERE kind = 'egress' AND state = 'done' AND scope = 'agent' AND revoked_at IS NULL
    AND decided_by IS NULL;
