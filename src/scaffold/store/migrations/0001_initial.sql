-- The database of a repository: its runs and everything they consist of.
-- The statements run on both SQLite and PostgreSQL: times are ISO-8601 text in UTC, lists and values are JSON text,
-- booleans are 0 or 1. A semicolon stands only at the end of a statement.
-- Indexes of a table are in the order in which SQLite tries them: of two that fit a query, it takes the later one.

-- One row per migration. `readable_from` is the oldest schema whose programs may still read this one.
CREATE TABLE schema_history (
    version INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL,
    readable_from INTEGER NOT NULL DEFAULT 1
);

CREATE TABLE run (
    id TEXT PRIMARY KEY,
    position INTEGER NOT NULL UNIQUE,
    request TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    base_branch TEXT,
    base_sha TEXT NOT NULL,
    session_branch TEXT NOT NULL,
    settings TEXT NOT NULL,
    fence INTEGER NOT NULL,
    owner TEXT,
    heartbeat_at DOUBLE PRECISION,
    control_request TEXT,
    last_seq INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    -- What the run waits for outside of itself: an endpoint that is down or limited. Empty while it waits for nothing.
    waits_for TEXT NOT NULL DEFAULT '',
    -- The process that starts another owner of the run if the owner is killed; NULL if nobody does.
    restarter TEXT,
    -- The order in which something last happened in the runs; it does not depend on the clock.
    touched INTEGER NOT NULL DEFAULT 0,
    -- How many agents the plan deserves, and why; NULL: as many as the tier says.
    advised_agents INTEGER,
    advice TEXT NOT NULL DEFAULT ''
);

CREATE INDEX run_by_input ON run (input_hash);
CREATE INDEX run_touched ON run (touched);

CREATE TABLE goal (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    desired TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    summary TEXT NOT NULL,
    persistent INTEGER NOT NULL CHECK (persistent IN (0, 1)),
    worker_cap INTEGER NOT NULL,
    supervisor TEXT,
    supervisor_started_at TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    -- When the goal last got a slot, as the number of the event that says so: goals get slots in turn.
    served_seq INTEGER NOT NULL DEFAULT 0,
    -- How many workers of the goal died in a row, and until when it starts no other one. `died_seq` is the number of the
    -- event that says when the last counted one died: workers that ran at that time are not counted again.
    deaths INTEGER NOT NULL DEFAULT 0,
    died_seq INTEGER NOT NULL DEFAULT 0,
    rests_from TEXT,
    rests_until TEXT,
    UNIQUE (run_id, name),
    UNIQUE (run_id, position)
);

CREATE INDEX goal_by_status ON goal (run_id, status);

CREATE TABLE action (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    goal_id TEXT NOT NULL REFERENCES goal (id),
    -- Deferred, as a plan may store a child before its parent.
    parent_id TEXT REFERENCES action (id) DEFERRABLE INITIALLY DEFERRED,
    position INTEGER NOT NULL,
    key TEXT NOT NULL,
    description TEXT NOT NULL,
    kind TEXT NOT NULL,
    method TEXT NOT NULL,
    role TEXT NOT NULL,
    preconditions TEXT NOT NULL,
    effects TEXT NOT NULL,
    files TEXT NOT NULL,
    contract TEXT,
    status TEXT NOT NULL,
    reason TEXT,
    result TEXT,
    guidance TEXT NOT NULL DEFAULT '',
    extra_attempts INTEGER NOT NULL DEFAULT 0,
    unmet INTEGER NOT NULL CHECK (unmet >= 0),
    failures INTEGER NOT NULL,
    failure_handled INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    -- How many workers of the action died in a row.
    deaths INTEGER NOT NULL DEFAULT 0,
    -- What the action asks for, in fields of its own, and where its attempts work.
    title TEXT NOT NULL DEFAULT '',
    acceptance TEXT NOT NULL DEFAULT '[]',
    verification_intent TEXT NOT NULL DEFAULT '',
    type TEXT,
    notes TEXT NOT NULL DEFAULT '',
    workspace TEXT NOT NULL DEFAULT 'own',
    UNIQUE (run_id, key)
);

CREATE INDEX action_by_position ON action (run_id, position, id);
CREATE INDEX action_by_status ON action (goal_id, status);
CREATE INDEX action_by_parent ON action (parent_id, status);
CREATE INDEX action_ready ON action (goal_id, position, id) WHERE status = 'pending' AND unmet = 0;
CREATE INDEX action_running_compound ON action (run_id) WHERE status = 'running' AND kind = 'compound';

-- How many actions of a goal have each status, so that a supervisor's step costs the same in plans of any size.
CREATE TABLE action_status_count (
    goal_id TEXT NOT NULL REFERENCES goal (id),
    status TEXT NOT NULL,
    action_count INTEGER NOT NULL,
    PRIMARY KEY (goal_id, status)
);

CREATE TABLE precondition (
    action_id TEXT NOT NULL REFERENCES action (id),
    goal_id TEXT NOT NULL,
    assertion TEXT NOT NULL,
    PRIMARY KEY (action_id, assertion)
);

CREATE INDEX precondition_by_assertion ON precondition (goal_id, assertion, action_id);

CREATE TABLE effect (
    action_id TEXT NOT NULL REFERENCES action (id),
    goal_id TEXT NOT NULL,
    assertion TEXT NOT NULL,
    PRIMARY KEY (action_id, assertion)
);

CREATE INDEX effect_by_assertion ON effect (goal_id, assertion, action_id);

-- Entries that were added to an action's `files` because its agent asked for them; never changed or removed.
CREATE TABLE file_grant (
    action_id TEXT NOT NULL REFERENCES action (id),
    position INTEGER NOT NULL,
    path TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (action_id, path, granted_by)
);

-- What changed the steps of a story, beside their execution.
CREATE TABLE story_history (
    story_id TEXT NOT NULL REFERENCES action (id),
    position INTEGER NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (story_id, position)
);

-- The requirements of the specification that a run implements until an audit finds them met.
CREATE TABLE requirement (
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    line INTEGER NOT NULL,
    PRIMARY KEY (run_id, position)
);

-- Attempts have one more column, `waits_for`; it is added below `inbox`, to which it refers.
CREATE TABLE attempt (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    action_id TEXT NOT NULL REFERENCES action (id),
    number INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    status TEXT NOT NULL,
    phase TEXT NOT NULL,
    outcome TEXT,
    executor TEXT NOT NULL,
    model TEXT NOT NULL,
    worker TEXT,
    heartbeat_at DOUBLE PRECISION,
    worktree TEXT,
    base_sha TEXT NOT NULL,
    head_sha TEXT,
    briefing TEXT NOT NULL,
    iteration INTEGER NOT NULL DEFAULT 0,
    verification TEXT,
    score TEXT,
    result TEXT,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd DOUBLE PRECISION,
    requests INTEGER NOT NULL,
    log_file TEXT,
    error TEXT,
    queued_at TEXT NOT NULL,
    queued_seq INTEGER NOT NULL,
    started_at TEXT,
    candidate_seq INTEGER,
    ended_at TEXT,
    -- The end of the attempt's time, on the monotonic clock: it moves while the attempt's model accepts no requests.
    ends_at DOUBLE PRECISION,
    -- Attempts at steps of a compound share a worktree, one after another, and may change nothing.
    kind TEXT NOT NULL DEFAULT 'change',
    workspace TEXT NOT NULL DEFAULT '',
    start_sha TEXT,
    -- Changes of a story's steps that its agent asked for.
    edits TEXT,
    -- Whether the work settles tests of the base.
    settles_tests INTEGER NOT NULL DEFAULT 1 CHECK (settles_tests IN (0, 1)),
    -- Why edits were rejected, until the story's notes say so.
    refused_edits TEXT,
    -- The paths that the committed work changes, if the files of its action are unknown, and that commit.
    touched TEXT,
    touched_sha TEXT,
    -- The failure as it can be compared, what followed from it, and whether the attempt was to take another approach
    -- than those before.
    fingerprint TEXT NOT NULL DEFAULT '',
    escalation TEXT NOT NULL DEFAULT '',
    alternative INTEGER NOT NULL DEFAULT 0 CHECK (alternative IN (0, 1)),
    UNIQUE (action_id, number)
);

-- At most one open attempt per action: dispatch is exactly-once.
CREATE UNIQUE INDEX attempt_open ON attempt (action_id) WHERE status <> 'ended';
CREATE INDEX attempt_by_run ON attempt (run_id, status, queued_seq);
CREATE INDEX attempt_conflict ON attempt (run_id) WHERE outcome = 'conflict';
CREATE INDEX attempt_by_workspace ON attempt (workspace, queued_seq) WHERE workspace <> '';
CREATE INDEX attempt_settling_tests ON attempt (run_id) WHERE outcome = 'landed' AND settles_tests = 1;
-- Two open attempts in one worktree would overwrite each other's files.
CREATE UNIQUE INDEX attempt_open_in_workspace ON attempt (workspace) WHERE workspace <> '' AND status <> 'ended';

-- The conversation of an attempt whose agent waits for a human, so that the next attempt can continue it.
CREATE TABLE waiting_turn (
    attempt_id TEXT PRIMARY KEY REFERENCES attempt (id),
    turn TEXT NOT NULL
);

-- A turn of the planner, or of a supervisor's agent.
CREATE TABLE planning_turn (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    goal_id TEXT REFERENCES goal (id),
    action_id TEXT REFERENCES action (id),
    event TEXT NOT NULL,
    facts_at_start INTEGER NOT NULL,
    outcome TEXT,
    error TEXT,
    input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd DOUBLE PRECISION,
    requests INTEGER NOT NULL,
    log_file TEXT,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    -- May differ by role.
    model TEXT NOT NULL DEFAULT '',
    UNIQUE (run_id, position)
);

CREATE INDEX planning_turn_by_goal ON planning_turn (goal_id, event, action_id);

CREATE VIEW usage_record AS
SELECT run_id, input_tokens, cached_input_tokens, output_tokens, cost_usd, requests FROM attempt
UNION ALL
SELECT run_id, input_tokens, cached_input_tokens, output_tokens, cost_usd, requests FROM planning_turn;

CREATE TABLE fact (
    goal_id TEXT NOT NULL REFERENCES goal (id),
    assertion TEXT NOT NULL,
    state TEXT NOT NULL,
    commit_sha TEXT NOT NULL,
    paths TEXT NOT NULL,
    evidence TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    -- Why the evidence may not be enough; that a fact is weak would not say what to do about it.
    doubts TEXT NOT NULL DEFAULT '[]',
    reviewed INTEGER NOT NULL DEFAULT 0 CHECK (reviewed IN (0, 1)),
    PRIMARY KEY (goal_id, assertion)
);

-- Every look at a goal asks for its stale facts. With the assertion, so that it gives the order asked for; otherwise
-- SQLite reads all facts of the goal instead.
CREATE INDEX fact_stale ON fact (goal_id, assertion) WHERE state = 'stale';

-- Which facts may depend on a path, by its checksum, so that a landing reads only these, however long the run is. Whether
-- they do is read from the fact itself.
CREATE TABLE fact_path (
    run_id TEXT NOT NULL REFERENCES run (id),
    checksum BIGINT NOT NULL,
    goal_id TEXT NOT NULL,
    assertion TEXT NOT NULL,
    PRIMARY KEY (run_id, checksum, goal_id, assertion)
);

CREATE TABLE sealed_contract (
    action_id TEXT NOT NULL REFERENCES action (id),
    phase TEXT NOT NULL,
    body TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (action_id, phase)
);

-- Results of gates by the tree that they ran on, whatever commit had it, so that a later run can reuse them as its
-- baseline.
CREATE TABLE gate_run (
    tree_sha TEXT NOT NULL,
    folder TEXT NOT NULL,
    command TEXT NOT NULL,
    environment TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (tree_sha, folder, command, environment)
);

CREATE TABLE baseline (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    environment TEXT NOT NULL,
    gates TEXT NOT NULL,
    created_at TEXT NOT NULL,
    tree_sha TEXT NOT NULL DEFAULT ''
);

-- Written before each ref update, so that a crash between the two can be resolved.
CREATE TABLE intent (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    fence INTEGER NOT NULL,
    ref TEXT NOT NULL,
    old_sha TEXT NOT NULL,
    new_sha TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    resolved_at TEXT,
    -- The attempt's own commit, as one update of the branch may land several.
    commit_sha TEXT,
    UNIQUE (run_id, position)
);

-- In this order: `intent_by_run` has all that have landed, and must not be taken for a query of the open ones.
CREATE INDEX intent_by_run ON intent (run_id, position);
CREATE INDEX intent_open ON intent (run_id, position) WHERE status = 'open';

-- How the owner has arranged the candidates that wait to land; only for people.
CREATE TABLE merge_queue (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    fence INTEGER NOT NULL,
    places TEXT NOT NULL
);

-- What commands of the user do to branches outside of the merge queue: taking work to the base branch, opening a pull
-- request, reverting an action. Written before the branch is moved or pushed, so that a crash in between can be resolved.
CREATE TABLE branch_move (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    purpose TEXT NOT NULL,
    branch TEXT NOT NULL,
    head_sha TEXT NOT NULL,
    old_sha TEXT,
    new_sha TEXT NOT NULL,
    action_id TEXT REFERENCES action (id),
    commits TEXT NOT NULL,
    url TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    resolved_at TEXT,
    UNIQUE (run_id, position)
);

CREATE INDEX branch_move_open ON branch_move (run_id, position) WHERE status = 'open';

-- What decides which ready actions may run at the same time: how many landings of a run have changed a path.
CREATE TABLE path_landing (
    run_id TEXT NOT NULL REFERENCES run (id),
    path TEXT NOT NULL,
    landings INTEGER NOT NULL,
    PRIMARY KEY (run_id, path)
);

-- The condition is that of the rule: more than three.
CREATE INDEX path_hotspot ON path_landing (run_id, path) WHERE landings > 3;

-- Where a run has its source, at its base.
CREATE TABLE source_layout (
    run_id TEXT PRIMARY KEY REFERENCES run (id),
    base_sha TEXT NOT NULL,
    layout TEXT NOT NULL
);

-- Ready actions that could not start because of others, and before how many of these others have started since.
CREATE TABLE held_back (
    action_id TEXT PRIMARY KEY REFERENCES action (id) ON DELETE CASCADE,
    run_id TEXT NOT NULL REFERENCES run (id),
    since_seq INTEGER NOT NULL,
    overtaken INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX held_back_by_run ON held_back (run_id, since_seq);

-- The last work of an action, merged in memory with the work of an open attempt: the paths in which they conflict.
CREATE TABLE work_forecast (
    run_id TEXT NOT NULL REFERENCES run (id),
    action_id TEXT NOT NULL REFERENCES action (id),
    head_sha TEXT NOT NULL,
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    attempt_sha TEXT NOT NULL,
    paths TEXT NOT NULL,
    PRIMARY KEY (action_id, head_sha, attempt_id, attempt_sha)
);

CREATE INDEX work_forecast_by_run ON work_forecast (run_id);

-- What a user asked of a goal or an action (stop, pause, cancel, resume), until the run's owner has done it.
CREATE TABLE control_request (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    goal_id TEXT NOT NULL REFERENCES goal (id),
    action_id TEXT REFERENCES action (id),
    created_at TEXT NOT NULL,
    completed_at TEXT,
    UNIQUE (run_id, position)
);

-- Approvals, questions and notices for the user.
CREATE TABLE inbox (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    goal_id TEXT REFERENCES goal (id),
    action_id TEXT REFERENCES action (id),
    attempt_id TEXT REFERENCES attempt (id),
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    detail TEXT NOT NULL,
    state TEXT NOT NULL,
    answer TEXT,
    scope TEXT NOT NULL DEFAULT 'run',
    created_at TEXT NOT NULL,
    decided_at TEXT,
    expires_at TEXT,
    valid_until TEXT,
    fingerprint TEXT NOT NULL,
    UNIQUE (run_id, position)
);

-- Equal items are asked once at a time.
CREATE UNIQUE INDEX inbox_open ON inbox (run_id, fingerprint) WHERE state = 'open';
CREATE INDEX inbox_by_fingerprint ON inbox (run_id, fingerprint, state);

-- The item that an attempt's worker waits for: meanwhile the attempt holds no slot of its run.
ALTER TABLE attempt ADD COLUMN waits_for TEXT REFERENCES inbox (id);

-- The actions that wait for the decision of an inbox item.
CREATE TABLE inbox_asker (
    item_id TEXT NOT NULL REFERENCES inbox (id),
    action_id TEXT NOT NULL REFERENCES action (id),
    PRIMARY KEY (item_id, action_id)
);

-- The processes that ask an item of the inbox at a terminal; a row counts only while its process lives.
CREATE TABLE inbox_terminal (
    item_id TEXT NOT NULL REFERENCES inbox (id),
    process TEXT NOT NULL,
    PRIMARY KEY (item_id, process)
);

-- What a human is shown of a change before it lands; it goes with the question.
CREATE TABLE inbox_shown (
    item_id TEXT PRIMARY KEY REFERENCES inbox (id),
    shown TEXT NOT NULL
);

-- What agents assumed where no human was asked.
CREATE TABLE assumption (
    run_id TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    action_id TEXT NOT NULL REFERENCES action (id),
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    question TEXT NOT NULL,
    assumed TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (attempt_id, question)
);

CREATE INDEX assumption_of_run ON assumption (run_id, position);

-- The verdicts of second reviewers, also about versions of a change that were reworked within an attempt.
CREATE TABLE review_verdict (
    run_id TEXT NOT NULL REFERENCES run (id),
    action_id TEXT NOT NULL REFERENCES action (id),
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    change TEXT NOT NULL,
    model TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('approve', 'reject')),
    given_at TEXT NOT NULL,
    PRIMARY KEY (attempt_id, change, model)
);

CREATE INDEX review_verdict_of_action ON review_verdict (action_id);

CREATE TABLE subscription (
    scope TEXT NOT NULL REFERENCES run (id),
    channel TEXT NOT NULL,
    subscriber TEXT NOT NULL,
    PRIMARY KEY (scope, channel, subscriber)
);

-- Messages between the agents of a run; `scope` is the run's id.
CREATE TABLE envelope (
    scope TEXT NOT NULL REFERENCES run (id),
    seq INTEGER NOT NULL,
    sender TEXT NOT NULL,
    recipient TEXT NOT NULL,
    channel TEXT,
    body TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    consumed_at TEXT,
    PRIMARY KEY (scope, seq)
);

CREATE INDEX envelope_unread ON envelope (scope, recipient, seq) WHERE consumed_at IS NULL;

-- What is set aside for requests under way, and the queue of those that wait for it: all processes share one limit.
CREATE TABLE reservation (
    id TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    payer TEXT NOT NULL,
    position INTEGER NOT NULL,
    amount_usd DOUBLE PRECISION,
    granted INTEGER NOT NULL CHECK (granted IN (0, 1)),
    owner TEXT NOT NULL,
    at TEXT NOT NULL,
    input_tokens BIGINT NOT NULL DEFAULT 0,
    cached_input_tokens BIGINT NOT NULL DEFAULT 0,
    output_tokens BIGINT NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 1,
    role TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    UNIQUE (account, position)
);

-- Totals, so that no request adds up all bookings before it.
CREATE TABLE budget_account (
    id TEXT PRIMARY KEY,
    spent_usd DOUBLE PRECISION NOT NULL,
    spent_tokens BIGINT NOT NULL DEFAULT 0,
    estimated_tokens BIGINT NOT NULL DEFAULT 0,
    error_tokens BIGINT NOT NULL DEFAULT 0
);

-- What each spender used.
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

CREATE TABLE event (
    run_id TEXT NOT NULL REFERENCES run (id),
    seq INTEGER NOT NULL,
    at TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- Each notice is recorded once in a run, and looked for before; most events are none.
CREATE INDEX event_notice ON event (run_id) WHERE substr(body, 1, 23) = '{"type":"notice_raised"';

-- What the processes of a run are busy with, one row for each attempt and one ('') for the owner; only for people.
CREATE TABLE step (
    run_id TEXT NOT NULL REFERENCES run (id),
    attempt_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    stage TEXT NOT NULL,
    work TEXT NOT NULL,
    folder TEXT NOT NULL,
    command TEXT NOT NULL,
    since TEXT NOT NULL,
    PRIMARY KEY (run_id, attempt_id)
);

-- How long each command took when it last ended: gates, checks and set-up commands.
CREATE TABLE command_duration (
    folder TEXT NOT NULL,
    command TEXT NOT NULL,
    duration_s DOUBLE PRECISION NOT NULL,
    ended_at TEXT NOT NULL,
    PRIMARY KEY (folder, command)
);

-- Items that people and agents write down, to be done outside of plans.
CREATE TABLE work_item (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    priority INTEGER NOT NULL,
    parent_id TEXT REFERENCES work_item (id),
    project TEXT NOT NULL,
    labels TEXT NOT NULL,
    run_id TEXT NOT NULL,
    action_key TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    by_agent INTEGER NOT NULL CHECK (by_agent IN (0, 1)),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
);

CREATE INDEX work_item_by_status ON work_item (status);
CREATE INDEX work_item_by_attempt ON work_item (attempt_id) WHERE attempt_id <> '';

CREATE TABLE work_item_blocker (
    item_id TEXT NOT NULL REFERENCES work_item (id),
    blocked_by TEXT NOT NULL REFERENCES work_item (id),
    PRIMARY KEY (item_id, blocked_by)
);

CREATE TABLE work_item_log (
    item_id TEXT NOT NULL REFERENCES work_item (id),
    position INTEGER NOT NULL,
    at TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (item_id, position)
);

-- From here on: what agents remember, what earlier work showed (learnings), and documents. Text, words and vectors of
-- each chunk change together. The user's database has the same tables.

-- One row: the number of the last change. What is derived from these tables knows by it what it has not seen.
CREATE TABLE knowledge_change (number INTEGER NOT NULL);
INSERT INTO knowledge_change VALUES (0);

-- A random mark for each of the last changes: who knows the number and the mark of a change knows whether this database
-- was in that state before. After a backup was restored, numbers come back, marks do not.
CREATE TABLE knowledge_mark (number INTEGER PRIMARY KEY, mark TEXT NOT NULL);

-- only: sqlite
INSERT INTO knowledge_mark SELECT number, lower(hex(randomblob(8))) FROM knowledge_change;

-- only: postgres
INSERT INTO knowledge_mark SELECT number, md5(random()::TEXT) FROM knowledge_change;

CREATE TABLE collection (
    name TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    capacity INTEGER NOT NULL,
    created_at TEXT NOT NULL
);

CREATE TABLE document (
    id TEXT PRIMARY KEY,
    collection TEXT NOT NULL REFERENCES collection (name) ON DELETE CASCADE,
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    state TEXT NOT NULL,
    position INTEGER NOT NULL,
    length INTEGER NOT NULL,
    error TEXT NOT NULL,
    created_at TEXT NOT NULL
);

CREATE INDEX document_by_collection ON document (collection);

CREATE TABLE chunk (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    collection TEXT NOT NULL REFERENCES collection (name) ON DELETE CASCADE,
    text TEXT NOT NULL,
    title TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    document_id TEXT REFERENCES document (id) ON DELETE CASCADE,
    start_char INTEGER NOT NULL,
    end_char INTEGER NOT NULL,
    page INTEGER NOT NULL,
    source TEXT NOT NULL,
    meta TEXT NOT NULL,
    state TEXT NOT NULL,
    valid_from TEXT NOT NULL,
    valid_until TEXT,
    superseded_by TEXT,
    created_at TEXT NOT NULL
);

-- A text that was superseded may be stored once more.
CREATE UNIQUE INDEX chunk_by_text ON chunk (collection, sha256, COALESCE(document_id, ''), start_char)
    WHERE valid_until IS NULL;
CREATE INDEX chunk_by_document ON chunk (document_id, start_char) WHERE document_id IS NOT NULL;
CREATE INDEX chunk_by_source ON chunk (source);
CREATE INDEX chunk_by_time ON chunk (collection, created_at, seq);

CREATE TABLE chunk_meta (
    chunk_id TEXT NOT NULL REFERENCES chunk (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (chunk_id, name)
);

CREATE INDEX chunk_meta_by_value ON chunk_meta (name, value);

-- The words of each chunk. In SQLite the table has no text of its own: it reads that of `chunk`.
-- only: sqlite
CREATE VIRTUAL TABLE chunk_words USING fts5 (
    title, text, content = 'chunk', content_rowid = 'seq', tokenize = 'porter unicode61'
);

-- only: sqlite
CREATE TRIGGER chunk_words_added AFTER INSERT ON chunk BEGIN
    INSERT INTO chunk_words (rowid, title, text) VALUES (new.seq, new.title, new.text); END;

-- only: sqlite
CREATE TRIGGER chunk_words_removed AFTER DELETE ON chunk BEGIN
    INSERT INTO chunk_words (chunk_words, rowid, title, text) VALUES ('delete', old.seq, old.title, old.text); END;

-- only: sqlite
CREATE TRIGGER chunk_words_changed AFTER UPDATE OF title, text ON chunk BEGIN
    INSERT INTO chunk_words (chunk_words, rowid, title, text) VALUES ('delete', old.seq, old.title, old.text); INSERT INTO chunk_words (rowid, title, text) VALUES (new.seq, new.title, new.text); END;

-- The words of each chunk are stored: to compute them anew for each rank took most of the time of a search.
-- only: postgres
ALTER TABLE chunk ADD COLUMN words TSVECTOR GENERATED ALWAYS AS (to_tsvector('english', title || ' ' || text)) STORED;

-- only: postgres
CREATE INDEX chunk_words ON chunk USING gin (words);

-- A chunk may have none yet: it is found by its words until then. Half-precision numbers of a vector of length 1.
CREATE TABLE embedding (
    seq INTEGER PRIMARY KEY,
    chunk_seq INTEGER NOT NULL UNIQUE REFERENCES chunk (seq) ON DELETE CASCADE,
    collection TEXT NOT NULL,
    model TEXT NOT NULL,
    vector BLOB NOT NULL
);

CREATE INDEX embedding_by_collection ON embedding (collection, seq);

-- Embeddings that are gone, by the number of that change: what an index outside of the database has to drop.
CREATE TABLE embedding_removal (
    embedding_seq INTEGER PRIMARY KEY,
    chunk_seq INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    collection TEXT NOT NULL
);

CREATE INDEX embedding_removal_by_collection ON embedding_removal (collection, seq);

-- What the chunk of a learning does not have; its text and concepts are those of its chunk, and are deleted with it.
CREATE TABLE learning (
    id TEXT PRIMARY KEY REFERENCES chunk (id) ON DELETE CASCADE,
    scope TEXT NOT NULL,
    module TEXT NOT NULL,
    preference INTEGER NOT NULL CHECK (preference IN (0, 1)),
    outcome TEXT,
    commit_sha TEXT NOT NULL,
    log TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    contradicts TEXT NOT NULL,
    triggers INTEGER NOT NULL,
    triggered_at TEXT
);

CREATE INDEX learning_by_fingerprint ON learning (fingerprint) WHERE fingerprint <> '';

-- Which learnings were found for an attempt: given to it, or withheld for comparison. What became of it is in its row.
-- A learning may be one of the user's database, or be forgotten.
CREATE TABLE learning_use (
    attempt_id TEXT NOT NULL REFERENCES attempt (id),
    learning_id TEXT NOT NULL,
    given INTEGER NOT NULL CHECK (given IN (0, 1)),
    moment TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (attempt_id, learning_id)
);

CREATE INDEX learning_use_by_learning ON learning_use (learning_id);
