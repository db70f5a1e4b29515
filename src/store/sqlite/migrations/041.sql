-- The messages with somebody who pays for what they lead to. Without it, each call in a channel where no person wrote reads
-- the whole channel.
CREATE INDEX message_by_payer ON message (channel, seq)
    WHERE person IS NOT NULL OR (author >= 'human:' AND author < 'human;');
