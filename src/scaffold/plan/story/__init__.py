"""Stories: worked in small steps that their agents may edit; values and pure functions only."""
