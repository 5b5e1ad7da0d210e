"""Server-side steps of the queue and the hot state: in a cluster each is given keys of one slot; none sends an envelope
back.
"""

from __future__ import annotations

from typing import Final

# KEYS the sessions of the answers sent, oldest first, the opening where one is asked for, and last what the ledger's
# keys begin with: there is always a key, and it leads to the node of a cluster that has all of these. ARGV how many of
# the keys are answers, a session known beforehand or '', then chain digests. What the keys but the last hold, the
# session that a ledger was read of, and that ledger at the digests: sessions and digests in hex.
FIND: Final = """
local answers = tonumber(ARGV[1])
local known = #KEYS - 1
local found = known > 0 and redis.call('MGET', unpack(KEYS, 1, known)) or {}
local session = ARGV[2]
local function hex(raw) return (string.gsub(raw, '.', function(c) return string.format('%02x', string.byte(c)) end)) end
if session == '' then
  for i = answers, 1, -1 do
    if found[i] then session = hex(string.sub(found[i], 1, 16)) break end
  end
end
local opening = answers < known and found[answers + 1]
if session == '' and opening and string.sub(opening, 1, 1) == '0' then session = hex(string.sub(opening, 2, 17)) end
local ledger = {}
if session ~= '' then
  for i = 3, #ARGV do ledger[i - 2] = redis.call('GET', KEYS[#KEYS] .. session .. ':' .. ARGV[i]) end
end
return {found, session, ledger}
"""

# Move one entry to another stream of the same slot, adding fields; nothing when it is gone, so a late second call
# leaves no second copy. KEYS from, to; ARGV group, id, then the fields to add. With no fields, r and a are dropped.
MOVE: Final = """
local found = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])
if #found == 0 then return false end
local fields = {}
for i = 1, #found[1][2], 2 do
  local name = found[1][2][i]
  if #ARGV > 2 or (name ~= 'r' and name ~= 'a') then
    fields[#fields + 1] = name
    fields[#fields + 1] = found[1][2][i + 1]
  end
end
for i = 3, #ARGV do fields[#fields + 1] = ARGV[i] end
local id = redis.call('XADD', KEYS[2], '*', unpack(fields))
redis.pcall('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
return id
"""

# KEYS lane; ARGV group, ids of entries. Acknowledge and delete them: how many were there.
DONE: Final = """
local gone = 0
for i = 2, #ARGV do
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[i])
  gone = gone + redis.call('XDEL', KEYS[1], ARGV[i])
end
return gone
"""

# KEYS lane, dead, and so on: in a cluster of one lane, else of all; ARGV group. Of each length, in flight, age of the
# oldest in ms, dead: without sending an envelope back.
STAT: Final = """
local rows = {}
for i = 1, #KEYS, 2 do
  local length = redis.call('XLEN', KEYS[i])
  local held = redis.pcall('XPENDING', KEYS[i], ARGV[1])
  local age = 0
  if length > 0 then
    local id = redis.call('XRANGE', KEYS[i], '-', '+', 'COUNT', 1)[1][1]
    local now = redis.call('TIME')
    age = now[1] * 1000 + math.floor(now[2] / 1000) - tonumber(string.match(id, '^%d+'))
  end
  rows[#rows + 1] = {length, held.err and 0 or held[1], age, redis.call('XLEN', KEYS[i + 1])}
end
return rows
"""

# KEYS lanes: in a cluster one, else all; ARGV group. The places among them, from 1 on, of those from which something
# was taken that is not finished. A lane without the group has nothing.
HELD: Final = """
local places = {}
for i = 1, #KEYS do
  local held = redis.pcall('XPENDING', KEYS[i], ARGV[1])
  if held.err then
    if not string.find(held.err, 'NOGROUP', 1, true) then return held end
  elseif held[1] > 0 then
    places[#places + 1] = i
  end
end
return places
"""

# KEYS dead; ARGV limit, the last entry looked at, the first. Id, exchange, tenant, reason, attempts of the newest dead
# letters between: never the envelope.
DEAD: Final = """
local rows = {}
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], ARGV[2], ARGV[3], 'COUNT', ARGV[1])) do
  local field = {}
  for i = 1, #entry[2], 2 do field[entry[2][i]] = entry[2][i + 1] end
  rows[#rows + 1] = {entry[1], field.x or '', field.t or '', field.r or '', field.a or '0'}
end
return rows
"""

# KEYS opening; ARGV session, seconds to live. The opening's session; whether somebody has gone on from it is kept
# where the session is the same one.
OPEN: Final = """
local old = redis.call('GET', KEYS[1])
local continued = '0'
if old and string.sub(old, 2) == ARGV[1] then continued = string.sub(old, 1, 1) end
return redis.call('SET', KEYS[1], continued .. ARGV[1], 'EX', ARGV[2])
"""

# KEYS opening; ARGV session. Somebody has gone on from it: a repeat opens a session of its own.
CONTINUE: Final = """
local old = redis.call('GET', KEYS[1])
if old and string.sub(old, 2) == ARGV[1] then redis.call('SETRANGE', KEYS[1], 0, '1') end
return old and 1 or 0
"""

# KEYS context; ARGV its mark (version and number, each of 20 digits, so that their order is that of the text),
# envelope, seconds to live. What is newer stays.
KEEP_NEWER: Final = """
local old = redis.call('GETRANGE', KEYS[1], 0, 39)
if old > ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'EX', ARGV[3])
return 1
"""

# KEYS version; ARGV version, seconds to live, channel, message. Never backwards, whatever order they arrive in, and who
# listens is told only what is new. What is not new keeps no version alive: the store may have been set back behind it.
ANNOUNCE: Final = """
local old = tonumber(redis.call('GET', KEYS[1]) or '-1')
if tonumber(ARGV[1]) <= old then return 0 end
redis.call('PUBLISH', ARGV[3], ARGV[4])
return redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
"""
