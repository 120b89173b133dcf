-- Spending: the same columns as in a repository's database.
ALTER TABLE reservation ADD COLUMN input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE reservation ADD COLUMN cached_input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE reservation ADD COLUMN output_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE reservation ADD COLUMN tries INTEGER NOT NULL DEFAULT 1;
ALTER TABLE reservation ADD COLUMN role TEXT NOT NULL DEFAULT '';
ALTER TABLE reservation ADD COLUMN model TEXT NOT NULL DEFAULT '';

ALTER TABLE budget_account ADD COLUMN spent_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE budget_account ADD COLUMN estimated_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE budget_account ADD COLUMN error_tokens BIGINT NOT NULL DEFAULT 0;
