-- The segments of transcripts that are in the second place, one after the other from the beginning of the file. A transcript is
-- known by the name of its file, which stays when its agent is renamed.
CREATE TABLE transcript_segment (
    file         TEXT NOT NULL,
    -- From 1.
    number       INTEGER NOT NULL,
    -- Where it begins in the file, and how many bytes it has. It ends with a line.
    start_byte   INTEGER NOT NULL,
    bytes        INTEGER NOT NULL,
    -- The numbers of its first and last line in the file, from 1.
    first_record INTEGER NOT NULL,
    last_record  INTEGER NOT NULL,
    -- In hex.
    sha256       TEXT NOT NULL,
    key          TEXT NOT NULL,
    place        TEXT NOT NULL,
    -- Unix milliseconds.
    made_at      INTEGER NOT NULL,
    PRIMARY KEY (file, number)
) STRICT, WITHOUT ROWID;
