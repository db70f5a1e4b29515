-- Tools of MCP servers that a person has seen, and the agents that may call them.
CREATE TABLE mcp_tool (
    server     TEXT NOT NULL,
    -- The server's own name of the tool.
    tool       TEXT NOT NULL,
    -- The definition that a person has seen, as canonical JSON, and its SHA-256 in hex. Only this one is offered.
    definition TEXT NOT NULL,
    sha256     TEXT NOT NULL,
    -- Another definition that the server has sent since. NULL while it sends the one above. The tool waits for a person.
    changed_definition TEXT,
    changed_sha256     TEXT,
    changed_at         INTEGER,
    -- The person who has seen the definition.
    seen_by    TEXT NOT NULL,
    seen_at    INTEGER NOT NULL,
    PRIMARY KEY (server, tool)
) STRICT, WITHOUT ROWID;

CREATE TABLE mcp_grant (
    server     TEXT NOT NULL,
    agent      TEXT NOT NULL,
    tool       TEXT NOT NULL,
    -- 1 if the agent may call it although its autonomy is readonly.
    readonly_ok INTEGER NOT NULL,
    granted_by TEXT NOT NULL,
    granted_at INTEGER NOT NULL,
    PRIMARY KEY (server, agent, tool),
    FOREIGN KEY (server, tool) REFERENCES mcp_tool (server, tool) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX mcp_grant_agent ON mcp_grant (agent);
