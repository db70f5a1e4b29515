-- Where a gateway of a group takes requests from the others, as in `127.0.0.1:40123`, and the public key by which they know it:
-- the 32 bytes of an Ed25519 key in hex. NULL for one that takes none.
ALTER TABLE gateway ADD COLUMN peer_address TEXT;
ALTER TABLE gateway ADD COLUMN peer_key TEXT;
