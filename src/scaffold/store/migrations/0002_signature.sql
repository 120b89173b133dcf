-- Signatures of the users whose state this is: of the one who made it, and of those who adopted it.
CREATE TABLE state_signature (
    digest TEXT PRIMARY KEY
);
