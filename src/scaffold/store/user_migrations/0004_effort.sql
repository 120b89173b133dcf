-- How much the model thinks, as the user chose it for the conversation; empty: as the settings say.
ALTER TABLE conversation ADD COLUMN effort TEXT NOT NULL DEFAULT '';
