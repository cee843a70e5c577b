-- The layouts (lists of servers) that gateways announced to this server. suppression/rules.py packs the
-- messages of this script. A property test compares the script with
-- tests/support/doubles/suppression_rules.py.
-- KEYS[1]: what is remembered: R, born, and for each layout its 16 bytes and when it was told.
-- ARGV[1]: R, the caller's layout, how long a layout counts as in use, how long it is remembered (ms).
-- Returns: Redis' clock (ms), when another layout was last told, or this began (ms), and whether
-- another one is in use.
if redis.replicate_commands then redis.replicate_commands() end -- Redis 6: TIME before a write
local sub, pack, unpack_bytes = string.sub, struct.pack, struct.unpack
local R, own, alive, keep = unpack_bytes('>c16c16dd', ARGV[1])
local MAX_LAYOUTS, RETAIN = 32, '2592000000' -- as in suppression_rules.py
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local held = redis.call('GET', KEYS[1])
local born, noisy, found, kept = now, 0, 0, {}

if held and sub(held, 1, 16) == R then
  born = unpack_bytes('>d', held, 17)
  for at = 25, #held, 24 do
    local layout, told = unpack_bytes('>c16d', held, at)
    if layout ~= own and now - told < keep then
      kept[#kept + 1] = sub(held, at, at + 23)
      if told > noisy then noisy = told end
      if now - told < alive then found = 1 end
    end
  end
end
local value = pack('>c16d', R, born)
for i = math.max(1, #kept - MAX_LAYOUTS + 2), #kept do value = value .. kept[i] end
value = value .. pack('>c16d', own, now)
-- With full memory a script's first write is refused, unless it needs none: see suppression.lua.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], value, 'PX', RETAIN)
return {now, math.max(noisy, born), found}
