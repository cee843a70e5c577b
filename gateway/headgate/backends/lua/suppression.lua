-- The suppression protocol; headgate/core/suppression_rules.py says the same in Python, and a
-- property test holds the two together. Written for speed: Redis runs nothing else meanwhile.
-- KEYS: incarnations, then entries.  ARGV[1]: header.  ARGV[2..]: operations, one for each entry.
-- Returns: Redis' clock (ms), the nonce of each namespace, the verdict of each reservation.
if redis.replicate_commands then redis.replicate_commands() end -- Redis 6: TIME before a write
local byte, sub, pack, unpack_bytes = string.byte, string.sub, struct.pack, struct.unpack
local floor, format = math.floor, string.format -- %.0f: newer versions write 1e+10 for a number
local header = ARGV[1]
local R, fresh, life, quarantine, max_age, retain, flags = unpack_bytes('>c16c16dddd', header)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + floor(clock[2] / 1000)
local found = redis.call('MGET', unpack(KEYS))
local reply, nonces, quarantined = {now}, {}, {}
local namespaces = #header - flags + 1
local NONE = string.rep('\0', 16)

for i = 1, namespaces do
  local held, nonce, known, born, renewed = found[i], nil, nil, 0, 0
  if held and byte(header, flags + i - 1) == 0 then
    nonce, known, born, renewed = unpack_bytes('>c16c16dd', held)
  end
  if known ~= R then nonce, born, renewed = fresh, now, now - retain end
  if now - renewed > retain / 4 then
    redis.call('SET', KEYS[i], pack('>c16c16dd', nonce, R, born, now), 'PX', format('%.0f', retain))
  end
  nonces[i] = nonce
  quarantined[i] = now < born + quarantine
  reply[i + 1] = nonce
end

-- Where a token's 21 bytes begin, or nil.
local function find(tokens, token)
  for at = 1, #tokens, 21 do
    if sub(tokens, at, at + 11) == token then return at end
  end
end

local function put(tokens, token, trusted)
  local at = find(tokens, token)
  if not at then return tokens .. token .. pack('>dB', now + life, trusted) end
  local deadline, was = unpack_bytes('>dB', tokens, at + 12)
  if deadline > now then trusted = was end
  return sub(tokens, 1, at + 11) .. pack('>dB', now + life, trusted) .. sub(tokens, at + 21)
end

local function longest(tokens)
  local most = 0
  for at = 13, #tokens, 21 do
    local deadline = unpack_bytes('>d', tokens, at)
    if deadline > most then most = deadline end
  end
  return most
end

for k = namespaces + 1, #KEYS do
  local operations = ARGV[k - namespaces + 1]
  local namespace = byte(operations) + 1
  local nonce, trust, held = nonces[namespace], not quarantined[namespace], found[k]
  local h, o, t, tokens, changed = NONE, -1, 0, '', false
  if held and sub(held, 1, 16) == nonce then -- else of an earlier incarnation: says nothing
    h, o, t = unpack_bytes('>c16dd', held, 17)
    tokens = sub(held, 49)
  end
  local at, size = 2, #operations
  while at <= size do
    local letter, token = byte(operations, at), sub(operations, at + 1, at + 12)
    if letter == 114 or letter == 112 or letter == 103 then -- r reserve, p force, g register
      if tokens ~= '' and longest(tokens) <= now then
        -- An expired token is a write of unknown end. One live token left: purge nothing.
        tokens, h, changed = '', NONE, true
      end
      local verdict = -2 - o
      if letter == 114 and trust and tokens == '' and h == sub(operations, at + 13, at + 28)
          and now - t < max_age then
        verdict = o
      else
        tokens = put(tokens, token, (trust and letter ~= 103) and 1 or 0)
        changed = true
      end
      if letter == 103 then
        at = at + 13
      else
        at = at + (letter == 114 and 31 or 15)
        local high, low = byte(operations, at - 2, at - 1)
        reply[namespaces + 2 + high * 256 + low] = verdict
      end
    elseif letter == 115 or letter == 107 then -- s settle, k settle but keep the token
      local place, trusted = find(tokens, token), false
      if place then
        trusted = byte(tokens, place + 20) == 1
        if letter == 115 then
          tokens = sub(tokens, 1, place - 1) .. sub(tokens, place + 21)
          changed = true
        end
      end
      local offset = unpack_bytes('>d', operations, at + 29)
      if offset > o then
        o, t, changed = offset, now, true
        h = trusted and sub(operations, at + 13, at + 28) or NONE
      end
      at = at + 37
    elseif letter == 120 then -- x refused
      local place = find(tokens, token)
      if place then
        tokens = sub(tokens, 1, place - 1) .. sub(tokens, place + 21)
        changed = true
      end
      at = at + 13
    else -- c clear: forget the content, trust nobody under way, keep tokens and offset
      h, changed = NONE, true
      local untrusted = {}
      for place = 1, #tokens, 21 do
        untrusted[#untrusted + 1] = sub(tokens, place, place + 19) .. '\0'
      end
      tokens = table.concat(untrusted)
      at = at + 1
    end
  end
  if changed then
    local left = longest(tokens) - now
    if left < max_age then left = max_age end
    redis.call('SET', KEYS[k], pack('>c16c16dd', nonce, h, o, t) .. tokens, 'PX', format('%.0f', floor(left + 60000)))
  end
end
return reply
