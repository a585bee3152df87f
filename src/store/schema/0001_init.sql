-- Times are Unix milliseconds; deadline_ns is CLOCK_MONOTONIC of the boot named in the row.
CREATE TABLE sandbox (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    reason TEXT,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    deadline_ns INTEGER NOT NULL,
    config TEXT,
    boot_id TEXT,
    pid INTEGER NOT NULL,
    pid_start INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    image_id TEXT,
    image_config TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE exec (
    id TEXT PRIMARY KEY,
    sandbox_id TEXT NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE,
    command TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX exec_sandbox ON exec (sandbox_id);

CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
