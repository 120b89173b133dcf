-- How far the work of a kept turn was judged, as its worker wrote it.
ALTER TABLE waiting_turn ADD COLUMN progress TEXT NOT NULL DEFAULT '';

-- Replies of models that were paid for work that has not ended: who asks the same again after a crash pays nothing.
CREATE TABLE paid_reply (
    scope TEXT NOT NULL,
    request TEXT NOT NULL,
    reply TEXT NOT NULL,
    PRIMARY KEY (scope, request)
);
