-- The messages of a turn. Without it, the end of a turn reads its whole channel to see if the turn has posted there.
CREATE INDEX message_by_turn ON message (turn) WHERE turn IS NOT NULL;
