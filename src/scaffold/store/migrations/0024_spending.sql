-- Spending: what each spender used, the totals of each account, and requests in tokens, role and model.
ALTER TABLE reservation ADD COLUMN input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE reservation ADD COLUMN cached_input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE reservation ADD COLUMN output_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE reservation ADD COLUMN tries INTEGER NOT NULL DEFAULT 1;
ALTER TABLE reservation ADD COLUMN role TEXT NOT NULL DEFAULT '';
ALTER TABLE reservation ADD COLUMN model TEXT NOT NULL DEFAULT '';

CREATE TABLE budget_account (
    id TEXT PRIMARY KEY,
    spent_usd DOUBLE PRECISION NOT NULL,
    spent_tokens BIGINT NOT NULL DEFAULT 0,
    estimated_tokens BIGINT NOT NULL DEFAULT 0,
    error_tokens BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE booking (
    run_id TEXT NOT NULL REFERENCES run (id),
    payer TEXT NOT NULL,
    role TEXT NOT NULL,
    model TEXT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    requests INTEGER NOT NULL,
    known_usd DOUBLE PRECISION NOT NULL,
    unpriced_requests INTEGER NOT NULL,
    PRIMARY KEY (run_id, payer, role, model)
);

-- Runs of older versions: an attempt's agents are counted under the role of its action.
INSERT INTO booking
SELECT attempt.run_id, attempt.id, action.role, attempt.model, attempt.input_tokens, attempt.cached_input_tokens,
       attempt.output_tokens, attempt.requests, COALESCE(attempt.cost_usd, 0.0),
       CASE WHEN attempt.cost_usd IS NULL THEN attempt.requests ELSE 0 END
FROM attempt JOIN action ON action.id = attempt.action_id
WHERE attempt.requests > 0;

INSERT INTO booking
SELECT run_id, id, CASE WHEN event = 'plan' THEN 'planner' ELSE 'supervisor' END, '', input_tokens,
       cached_input_tokens, output_tokens, requests, COALESCE(cost_usd, 0.0),
       CASE WHEN cost_usd IS NULL THEN requests ELSE 0 END
FROM planning_turn
WHERE requests > 0;

INSERT INTO budget_account (id, spent_usd, spent_tokens)
SELECT run_id, SUM(known_usd), SUM(input_tokens - cached_input_tokens + output_tokens) FROM booking GROUP BY run_id;
