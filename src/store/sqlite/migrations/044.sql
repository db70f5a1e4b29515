-- The engines that answer a gateway of a group, as a JSON list of their names. NULL until it has asked them.
ALTER TABLE gateway ADD COLUMN engines TEXT;
