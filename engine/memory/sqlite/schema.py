"""A memory in a SQLite file as data: its schema, what leads to it, and every statement on its rows."""

from __future__ import annotations

from typing import Final

APPLICATION_ID: Final = 0x7475726E
"""Marks a database file as ours: `turn` in ASCII."""

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        # The fingerprint is in the key: what was learnt about a target as it was stays until its time
        # to live, beside what is learnt about the target as it is now.
        """
        CREATE TABLE eviction (
            namespace TEXT NOT NULL, session TEXT NOT NULL, agent TEXT NOT NULL,
            target TEXT NOT NULL, reason TEXT NOT NULL, fingerprint TEXT NOT NULL,
            first TEXT NOT NULL,           -- the first cause, as JSON
            latest_turn TEXT NOT NULL, latest_at REAL NOT NULL,
            size INTEGER,                  -- the smallest that overflowed
            refused TEXT NOT NULL,         -- the sets of features, as JSON
            machine TEXT NOT NULL,         -- the standing machine's digest
            epoch INTEGER NOT NULL,        -- the target's when it was recorded
            PRIMARY KEY (namespace, session, agent, target, reason, fingerprint)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE identity (
            namespace TEXT NOT NULL, session TEXT NOT NULL, agent TEXT NOT NULL,
            last_use REAL NOT NULL, home TEXT, chars_per_token REAL,
            PRIMARY KEY (namespace, session, agent)
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE target (
            namespace TEXT NOT NULL, target TEXT NOT NULL, fingerprint TEXT NOT NULL,
            stripped TEXT, epoch INTEGER NOT NULL DEFAULT 0, health TEXT, trial TEXT,
            PRIMARY KEY (namespace, target, fingerprint)
        ) WITHOUT ROWID
        """,
        # What no new epoch of its target has overtaken.
        """
        CREATE VIEW standing AS
            SELECT eviction.*, identity.last_use
            FROM eviction JOIN identity USING (namespace, session, agent)
            LEFT JOIN target USING (namespace, target, fingerprint)
            WHERE eviction.epoch = coalesce(target.epoch, 0)
        """,
    ),
    (
        # Long ids are kept as digests, by the functions of ids.py.
        """
        UPDATE OR REPLACE eviction
        SET namespace = kept_namespace(namespace), session = kept_id(session), agent = kept_id(agent)
        WHERE length(CAST(namespace AS BLOB)) > 128 OR length(CAST(session AS BLOB)) > 128
        OR length(CAST(agent AS BLOB)) > 128
        """,
        """
        UPDATE OR REPLACE identity
        SET namespace = kept_namespace(namespace), session = kept_id(session), agent = kept_id(agent)
        WHERE length(CAST(namespace AS BLOB)) > 128 OR length(CAST(session AS BLOB)) > 128
        OR length(CAST(agent AS BLOB)) > 128
        """,
        """
        UPDATE OR REPLACE target SET namespace = kept_namespace(namespace)
        WHERE length(CAST(namespace AS BLOB)) > 128
        """,
    ),
    (
        # A restoration that is done late overtakes only what is of an earlier time.
        "ALTER TABLE target ADD COLUMN restored_at REAL",
        "DROP VIEW standing",
        """
        CREATE VIEW standing AS
            SELECT eviction.*, identity.last_use
            FROM eviction JOIN identity USING (namespace, session, agent)
            LEFT JOIN target USING (namespace, target, fingerprint)
            WHERE eviction.epoch = coalesce(target.epoch, 0) OR eviction.latest_at > target.restored_at
        """,
    ),
    (
        # What a session has got used to is one value, merged as one. `chars_per_token` and `target.trial`
        # never held anything: to drop a column takes an SQLite that not every Python has.
        "ALTER TABLE identity RENAME COLUMN home TO habits",
    ),
)
"""What leads from each schema version to the next. A file's version is its `user_version`."""

SCHEMA: Final = len(MIGRATIONS)

READ: Final = """
    SELECT target, reason, fingerprint, first, latest_turn, latest_at, size, refused, machine
    FROM standing WHERE namespace = ? AND session = ? AND agent = ? AND last_use + ? > ?
"""
_HABITS_ROW: Final = """
    UNION ALL SELECT NULL, habits, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM identity
    WHERE namespace = ? AND session = ? AND agent = ? AND last_use + ? > ? AND habits IS NOT NULL
"""
READ_ALL: Final = READ + _HABITS_ROW
HABITS: Final = "SELECT habits FROM identity WHERE namespace = ? AND session = ? AND agent = ?"
SETTLE: Final = "UPDATE identity SET habits = ? WHERE namespace = ? AND session = ? AND agent = ?"
DUE: Final = """
    SELECT 1 FROM identity WHERE namespace = ? AND session = ? AND agent = ?
    AND last_use + ? > ? AND last_use + ? <= ? AND (habits IS NOT NULL OR EXISTS (
    SELECT 1 FROM standing WHERE standing.namespace = identity.namespace
    AND standing.session = identity.session AND standing.agent = identity.agent))
"""
TOUCH: Final = """
    UPDATE identity SET last_use = max(last_use, ?) WHERE namespace = ? AND session = ? AND agent = ?
"""
EPOCH: Final = "SELECT epoch FROM target WHERE namespace = ? AND target = ? AND fingerprint = ?"
NEW_EPOCH: Final = """
    INSERT INTO target (namespace, target, fingerprint, epoch, restored_at) VALUES (?, ?, ?, 1, ?)
    ON CONFLICT DO UPDATE
    SET epoch = epoch + 1, restored_at = max(ifnull(restored_at, excluded.restored_at), excluded.restored_at)
"""
STRIPPED: Final = "SELECT stripped FROM target WHERE namespace = ? AND target = ? AND fingerprint = ?"
STRIP: Final = """
    INSERT INTO target (namespace, target, fingerprint, stripped) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET stripped = excluded.stripped
"""
FIRST_STRIP: Final = """
    INSERT OR IGNORE INTO target (namespace, target, fingerprint, stripped) VALUES (?, ?, ?, ?)
"""
HEALTH: Final = (
    "SELECT CAST(health AS BLOB) FROM target WHERE namespace = ? AND target = ? AND fingerprint = ?"
)
CHANGE_HEALTH: Final = """
    INSERT INTO target (namespace, target, fingerprint, health) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET health = excluded.health
"""
RECORD: Final = """
    INSERT OR REPLACE INTO eviction (
        namespace, session, agent,
        target, reason, fingerprint, first, latest_turn, latest_at, size, refused, machine, epoch
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
USE: Final = """
    INSERT INTO identity (namespace, session, agent, last_use) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET last_use = max(last_use, excluded.last_use)
"""
FIRST_USE: Final = """
    INSERT OR IGNORE INTO identity (namespace, session, agent, last_use) VALUES (?, ?, ?, ?)
"""
EXPIRED: Final = """
    SELECT 1 FROM identity WHERE namespace = ? AND session = ? AND agent = ? AND last_use + ? <= ?
"""
REMOVE: Final = """
    DELETE FROM eviction WHERE namespace = ? AND session = ? AND agent = ?
    AND target = ? AND reason = ? AND fingerprint = ?
"""
# A last use that is no number counts as zero here, as it does in READ and EXPIRED.
IDENTITIES: Final = """
    SELECT session, agent, ifnull(last_use + 0.0, 0.0) FROM identity
    WHERE namespace = ? AND (session, agent) >= (?, ?) ORDER BY session, agent LIMIT ?
"""
IDENTITIES_OF: Final = """
    SELECT session, agent, ifnull(last_use + 0.0, 0.0) FROM identity
    WHERE namespace = ? AND session = ? AND agent >= ? ORDER BY agent LIMIT ?
"""
USED_SINCE: Final = """
    SELECT 1 FROM identity WHERE namespace = ? AND session = ? AND last_use + 0.0 > ? LIMIT 1
"""
LEAVE: Final = """
    DELETE FROM identity WHERE namespace = ? AND session = ? AND agent = ? AND habits IS NULL
    AND NOT EXISTS (SELECT 1 FROM eviction AS held WHERE held.namespace = identity.namespace
    AND held.session = identity.session AND held.agent = identity.agent)
"""
FORGET_UNTIL: Final = """
    DELETE FROM eviction WHERE namespace = ? AND session = ? AND agent = ?
    AND (latest_at <= ? OR typeof(latest_at) <> 'real')
"""
FORGET: Final = "DELETE FROM identity WHERE namespace = ? AND session = ? AND agent = ?"
FORGET_EVICTIONS: Final = "DELETE FROM eviction WHERE namespace = ? AND session = ? AND agent = ?"
