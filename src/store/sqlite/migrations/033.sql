-- What a person lets MCP servers ask for while an agent calls them: answers of the agent's model (sampling),
-- answers of a person (elicitation).
CREATE TABLE mcp_capability (
    server     TEXT NOT NULL,
    agent      TEXT NOT NULL,
    -- The protocol's name.
    capability TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    granted_at INTEGER NOT NULL,
    PRIMARY KEY (server, agent, capability)
) STRICT, WITHOUT ROWID;
CREATE INDEX mcp_capability_agent ON mcp_capability (agent);

-- The MCP server that asked for a call of a model. NULL for the agent's own calls.
ALTER TABLE usage ADD COLUMN server TEXT;
CREATE INDEX usage_of_servers ON usage (day, server, agent) WHERE server IS NOT NULL;
