-- Channel messages that were deleted or changed, for the search index, which is a file of its own. Whoever keeps the
-- index takes them in order and deletes the rows. New messages need none: the index remembers the last id that it has.
CREATE TABLE search_mark (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    message INTEGER NOT NULL
) STRICT;

CREATE TRIGGER search_message_deleted AFTER DELETE ON message BEGIN
    INSERT INTO search_mark (message) VALUES (old.id);
END;

CREATE TRIGGER search_message_changed AFTER UPDATE OF content ON message BEGIN
    INSERT INTO search_mark (message) VALUES (new.id);
END;
