-- NOT the product: the older protocol with an epoch counter ("last claim wins"), to see the test
-- fail. It takes the product's calls. An entry: epoch, digest, offset, time, then the epochs that
-- open claims were given (12 bytes of token, one double each); the commit counts if its epoch is
-- still the newest. Claim order is not append order: that is its hole.
if redis.replicate_commands then redis.replicate_commands() end
local header = ARGV[1]
local _, _, _, _, max_age, _, first = struct.unpack('>c16c16dddd', header)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local found = redis.call('MGET', unpack(KEYS))
local namespaces = (#header - first + 1) / 13
local NONE = string.rep('\0', 16)
local reply, verdicts, start = {now, 0, 0, ''}, {}, 1
for i = 1, namespaces do
  local _, count = struct.unpack('>BI4', header, first + (i - 1) * 13)
  reply[i + 4] = struct.pack('>c16I4d', string.rep('n', 16), count, now)
end
local before = 2 * namespaces -- incarnations and marks
for k = before + 1, #KEYS do
  local bytes = struct.unpack('>I2', ARGV[2], 2 * (k - before) - 1)
  local operations, held = string.sub(ARGV[3], start, start + bytes - 1), found[k]
  start = start + bytes
  local epoch, h, o, t, claims = 0, NONE, -1, 0, {}
  if held then
    epoch, h, o, t = struct.unpack('>dc16dd', held)
    for at = 41, #held, 20 do
      claims[string.sub(held, at, at + 11)] = struct.unpack('>d', held, at + 12)
    end
  end
  local at, size = 2, #operations
  while at <= size do
    local letter, token = string.sub(operations, at, at), string.sub(operations, at + 1, at + 12)
    if letter == 'r' then
      local verdict = -1
      if h == string.sub(operations, at + 13, at + 28) and now - t < max_age then
        verdict = o
      else
        h, epoch = NONE, epoch + 1
        claims[token] = epoch
      end
      local high, low = string.byte(operations, at + 29, at + 30)
      verdicts[high * 256 + low + 1] = verdict
      at = at + 31
    elseif letter == 's' then
      if claims[token] == epoch then
        h, o, t = string.sub(operations, at + 13, at + 28), struct.unpack('>d', operations, at + 29), now
      end
      claims[token] = nil
      at = at + 41
    else
      at = at + 13 -- refused, register: nothing
    end
  end
  local parts = {struct.pack('>dc16dd', epoch, h, o, t)}
  for token, given in pairs(claims) do parts[#parts + 1] = token .. struct.pack('>d', given) end
  redis.call('SET', KEYS[k], table.concat(parts), 'PX', 3600000)
end
reply[4] = struct.pack('>' .. string.rep('i8', #verdicts), unpack(verdicts))
return reply
