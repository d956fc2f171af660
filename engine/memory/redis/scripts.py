"""What runs within Redis, where nothing else comes between: compare, and then change.

The rules stay in Python. A script is given what was read and what shall become of it. If
something else is there by now, it changes nothing and gives that back, to be reckoned with.

A value is `SCHEMA EPOCH JSON`. It stands while its epoch is its target's, which the hash of
epochs has under what follows the reason in its field, as `EPOCH SINCE`; and also if its latest
time is later than that: the restoration was done late then.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Final


class Script:
    """A script, and the name under which Redis keeps it once it has run."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = sha1(text.encode(), usedforsecurity=False).hexdigest()


_STANDING: Final = """
local function epoch_of(field)
    local epoch = redis.call('HGET', KEYS[2], string.match(field, ' (.*)$') or '') or '0'
    return string.match(epoch, '^(%d+) ?(.*)$')
end
local function standing(field, value)
    local epoch = string.match(value, '^%d+ (%d+) ')
    local current, since = epoch_of(field)
    if epoch == nil or epoch == current then  -- a damaged one is given out, to be told
        return true
    end
    -- within a text its quotes would be escaped
    local at = tonumber(string.match(value, '"latest_at":([^,}]+)') or '')
    since = tonumber(since or '')
    return at ~= nil and since ~= nil and at > since
end
"""

READ: Final = Script(
    _STANDING
    + """
local held, found = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #held, 2 do
    if held[i] == 'use' or standing(held[i], held[i + 1]) then
        found[#found + 1] = held[i]
        found[#found + 1] = held[i + 1]
    end
end
return found
"""
)
"""What stands of one identity: fields and values. KEYS: identity, epochs."""

_IN_USE: Final = """
local at, ttl, step = tonumber(ARGV[1]), tonumber(ARGV[4]), tonumber(ARGV[5])
local span, slack = tonumber(ARGV[6]), tonumber(ARGV[7])
local use = redis.call('HGET', KEYS[1], 'use')
local last = use and tonumber(use)
local function keep(key, least, for_ms)
    if redis.call('PTTL', key) < least then
        redis.call('PEXPIRE', key, for_ms)
    end
end
local function in_use(field, value, anew)
    local newest = last and last > at and use or ARGV[1]
    redis.call('ZADD', KEYS[3], 0, ARGV[2])  -- first: where one of these cannot be, nothing is changed
    redis.call('ZADD', KEYS[4], 'GT', newest, ARGV[2])
    redis.call('ZADD', KEYS[5], 'GT', newest, ARGV[3])
    if anew then
        redis.call('DEL', KEYS[1])
    end
    if field then
        redis.call('HSET', KEYS[1], field, value)
    end
    if newest ~= use then
        redis.call('HSET', KEYS[1], 'use', newest)
    end
    keep(KEYS[1], span - slack, span)
    for i = 3, 5 do
        keep(KEYS[i], span, span + slack)  -- no index goes before what it lists
    end
end
"""
"""KEYS: identity, epochs, identities, uses, sessions.
ARGV: time, identity, session, time to live, when a use is written again; in ms how long keys are kept, and
how much of that may have passed until they are kept anew.
"""

RECORD: Final = Script(
    _STANDING
    + _IN_USE
    + """
local expired = last and last + ttl <= at
local stored = not expired and redis.call('HGET', KEYS[1], ARGV[8]) or ''
if stored ~= '' and not standing(ARGV[8], stored) then
    stored = ''
end
if stored ~= ARGV[9] then
    return stored
end
local gone = {}
if expired then
    local held = redis.call('HGETALL', KEYS[1])
    for i = 1, #held, 2 do
        if held[i] ~= 'use' and standing(held[i], held[i + 1]) then
            gone[#gone + 1] = held[i]
            gone[#gone + 1] = held[i + 1]
        end
    end
    use, last = nil, nil
end
in_use(ARGV[8], ARGV[10] .. ' ' .. (epoch_of(ARGV[8]) or '0') .. ' ' .. ARGV[11], expired)
return gone
"""
)
"""Put an eviction where another one was, or none, and give back what had expired: fields and values.
ARGV, further: field, what was there, schema, JSON.
"""

RESTORE: Final = Script(
    """
local epoch = redis.call('HGET', KEYS[1], ARGV[1]) or '0'
local number, since = string.match(epoch, '^(%d+) ?(.*)$')
local last = tonumber(since or '')
if last == nil or last < tonumber(ARGV[2]) then
    since = ARGV[2]
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d %s', (number or 0) + 1, since))
return false
"""
)
"""Begin a new epoch. KEYS: epochs. ARGV: target, time."""

TOUCH: Final = Script(
    _STANDING
    + _IN_USE
    + """
if not last or last + ttl <= at or last + step > at then
    return false
end
local held = redis.call('HGETALL', KEYS[1])
for i = 1, #held, 2 do
    if held[i] ~= 'use' and standing(held[i], held[i + 1]) then
        in_use()
        return false
    end
end
return false
"""
)
"""Note a use, if it is due and anything stands."""

DUE: Final = Script(
    """
return {
    redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2]),
    redis.call('ZCARD', KEYS[2]),
    redis.call('ZRANGE', KEYS[2], 0, ARGV[3]),
}
"""
)
"""What a sweep goes by, as of one moment: identities last used until a time, how many sessions there are, and
the first of them by last use. KEYS: uses, sessions. ARGV: the time, how many of each, and that less one.
"""

DROP: Final = Script(
    """
local raced, a = {}, 1
for k = 4, #KEYS do
    local member, session, use = ARGV[a], ARGV[a + 1], ARGV[a + 2]
    local pairs_end = a + 3 + 2 * tonumber(ARGV[a + 3])
    local same = use == '' or redis.call('HGET', KEYS[k], 'use') == use
    for i = a + 4, pairs_end, 2 do
        same = same and redis.call('HGET', KEYS[k], ARGV[i]) == ARGV[i + 1]
    end
    if same then
        for i = a + 4, pairs_end, 2 do
            redis.call('HDEL', KEYS[k], ARGV[i])
        end
        local left = redis.call('HLEN', KEYS[k])
        if left == 0 or (left == 1 and redis.call('HEXISTS', KEYS[k], 'use') == 1) then
            redis.call('DEL', KEYS[k])
            redis.call('ZREM', KEYS[1], member)
            redis.call('ZREM', KEYS[2], member)
            local past = '(' .. string.sub(session, 1, -2) .. ';'
            if #redis.call('ZRANGEBYLEX', KEYS[1], '[' .. session, past, 'LIMIT', 0, 1) == 0 then
                redis.call('ZREM', KEYS[3], session)
            end
        end
    else
        raced[#raced + 1] = k - 4
    end
    a = pairs_end + 1
end
return raced
"""
)
"""Remove values of identities, and who holds nothing then. Of an identity where one of its values, or its
use, is no longer as it was read, nothing is removed; which those are is given back, counted from 0.

KEYS: identities, uses, sessions; then each identity.
ARGV for each: identity, session, use or nothing, how many pairs follow, and those: field, value.
"""

SWAP: Final = Script(
    """
local stored = redis.call('GET', KEYS[1]) or ''
if stored ~= ARGV[1] then
    return stored
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return false
"""
)
"""Put a value where another one was, or none. ARGV: what was there, the value, how long it is kept."""
