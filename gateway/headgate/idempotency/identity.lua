-- Request identity; headgate/idempotency/rules.py says the same in Python, and a property test
-- holds the two together. Operations run in order, each seeing those before it.
-- KEYS: a name for each operation.  ARGV[1]: how long a claim stands (ms).  ARGV[2..]: operations:
-- letter (1) fingerprint (16) token (12) keep (double, ms) and what is to be remembered.
-- Returns: Redis' clock (ms), then an answer for each claim: a letter and what is remembered.
if redis.replicate_commands then redis.replicate_commands() end -- Redis 6: TIME before a write
local byte, sub, pack, unpack_bytes = string.byte, string.sub, struct.pack, struct.unpack
local floor, format = math.floor, string.format
local clock = redis.call('TIME')
local now = clock[1] * 1000 + floor(clock[2] / 1000)
local life = tonumber(ARGV[1])
local NOBODY = string.rep('\0', 12)
local reply = {now}

local function write(name, fingerprint, token, deadline, done, memory, left)
  redis.call('SET', name, pack('>c16c12dB', fingerprint, token, deadline, done) .. memory,
    'PX', format('%.0f', floor(left)))
end

for i = 1, #KEYS do
  local name, operation = KEYS[i], ARGV[i + 1]
  local letter, fingerprint = byte(operation), sub(operation, 2, 17)
  local token, keep = sub(operation, 18, 29), unpack_bytes('>d', operation, 30)
  local held = redis.call('GET', name)
  local known, owner, deadline, done, memory = nil, NOBODY, 0, 0, ''
  if held then
    known, owner, deadline, done = unpack_bytes('>c16c12dB', held)
    memory = sub(held, 38)
  end
  local mine, claims = held and owner == token, false
  if letter == 99 then -- c claim
    if held and known ~= fingerprint then
      reply[#reply + 1] = 'M'
    elseif done == 1 then
      reply[#reply + 1] = 'D' .. memory
    elseif owner ~= NOBODY and not mine and deadline > now then
      reply[#reply + 1] = 'R'
    else
      reply[#reply + 1] = 'C' .. memory
      claims = true
    end
  elseif letter == 114 then -- r renew
    claims = not held or mine
  elseif letter == 100 or letter == 112 then -- d done, p partly
    if not held or mine then
      write(name, fingerprint, NOBODY, 0, letter == 100 and 1 or 0, sub(operation, 38), keep)
    end
  elseif mine then -- x release
    if memory == '' then
      redis.call('DEL', name)
    else
      write(name, known, NOBODY, 0, 0, memory, keep)
    end
  end
  if claims then
    local left = life + 60000
    if memory ~= '' and keep > left then left = keep end
    write(name, fingerprint, token, now + life, 0, memory, left)
  end
end
return reply
