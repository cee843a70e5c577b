-- The suppression protocol; headgate/core/suppression/rules.py says the same in Python, and a
-- property test holds the two together. Written for speed: Redis runs nothing else meanwhile. The
-- work of a call is linear in its operations, and a key has at most MAX_TOKENS tokens.
-- KEYS: incarnations, then entries.  ARGV[1]: header.  ARGV[2..]: operations, one for each entry.
-- Returns: Redis' clock (ms), how many reservations were crowded, how many entries memory had no
-- room for, the state of each namespace, the verdict of each reservation.
if redis.replicate_commands then redis.replicate_commands() end -- Redis 6: TIME before a write
local byte, sub, find_text = string.byte, string.sub, string.find
local pack, unpack_bytes = struct.pack, struct.unpack
local floor, format = math.floor, string.format -- %.0f: newer versions write 1e+10 for a number
local header = ARGV[1]
local R, fresh, life, quarantine, max_age, retain, first = unpack_bytes('>c16c16dddd', header)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + floor(clock[2] / 1000)
local found = redis.call('MGET', unpack(KEYS))
local nonces, opened, counts, behind = {}, {}, {}, {}
local namespaces = (#header - first + 1) / 13
local reply, crowded = {now, 0, 0}, 0
local is_full, forgotten = false, 0
local NONE, CROWD = string.rep('\0', 16), string.rep('\255', 12)
local MAX_TOKENS = 64 -- as in headgate/core/suppression/protocol.py
local FULL = MAX_TOKENS * 21

-- Memory may be full (noeviction): then a script's first write is refused, unless it needs none.
-- Behind one that needs none, such as DEL, Redis lets the script go on: so it is documented.
local function store(key, value, ms)
  if not is_full then
    local done = redis.pcall('SET', key, value, 'PX', ms)
    if not done.err then return end
    if not find_text(done.err, 'OOM', 1, true) then redis.call('SET', key, value, 'PX', ms) end
    is_full = true
  end
  redis.call('DEL', key)
  redis.call('SET', key, value, 'PX', ms)
end

for i = 1, namespaces do
  local flags, caller, rule = unpack_bytes('>BI4c8', header, first + (i - 1) * 13)
  local held, nonce, known, born, renewed, count, whose = found[i], nil, nil, 0, 0, 0, rule
  local changed = false
  if held then
    nonce, known, born, renewed, count, whose = unpack_bytes('>c16c16ddI4c8', held)
  end
  if known ~= R or flags % 2 == 1 then nonce, born, changed = fresh, now, true end
  -- For one topic id the count only grows, whatever else was lost.
  if caller > count then count, changed = caller, true end
  local is_open = now >= born + quarantine
  if whose ~= rule then -- under another key rule the same thing has another key
    if is_open then nonce = fresh end
    if born < now then born = now end
    whose, changed, is_open = rule, true, now >= born + quarantine
  end
  if flags >= 2 then -- records are, or were, written without a reservation
    if is_open then nonce = fresh end
    if born < now + quarantine / 2 then born = now + quarantine / 2 end
    changed, is_open = true, now >= born + quarantine
  end
  if changed or now - renewed > retain / 4 then
    store(KEYS[i], pack('>c16c16ddI4c8', nonce, R, born, now, count, whose), format('%.0f', retain))
  end
  nonces[i], opened[i], counts[i], behind[i] = nonce, is_open, count, caller < count
  reply[i + 3] = pack('>c16I4d', nonce, count, born + quarantine)
end

-- Where a token's 21 bytes begin, or nil.
local function find(tokens, token)
  local at = find_text(tokens, token, 1, true)
  while at and at % 21 ~= 1 do at = find_text(tokens, token, at + 1, true) end
  return at
end

-- Returns the tokens with this one, and whether it has no place of its own.
local function put(tokens, token, trusted)
  local at, is_crowd = find(tokens, token), false
  if not at and #tokens >= FULL then
    token, trusted, is_crowd = CROWD, 0, true
    at = find(tokens, token)
  end
  if not at then return tokens .. token .. pack('>dB', now + life, trusted), is_crowd end
  local deadline, was = unpack_bytes('>dB', tokens, at + 12)
  if deadline > now then trusted = was end
  return sub(tokens, 1, at + 11) .. pack('>dB', now + life, trusted) .. sub(tokens, at + 21), is_crowd
end

-- The newest stand last: mostly the first look finds one that lives.
local function all_expired(tokens)
  for at = #tokens - 8, 1, -21 do
    if unpack_bytes('>d', tokens, at) > now then return false end
  end
  return true
end

-- The 21st byte of each token says whether it is trusted.
local TOKEN = '(' .. string.rep('.', 20) .. ').'
local function distrust(tokens)
  return (string.gsub(tokens, TOKEN, '%1\0'))
end

for k = namespaces + 1, #KEYS do
  local operations = ARGV[k - namespaces + 1]
  local namespace = byte(operations) + 1
  local nonce, trust, count, held = nonces[namespace], opened[namespace], counts[namespace], found[k]
  local h, o, t, n, longest, tokens, changed, cleared = NONE, -1, 0, 0, 0, '', false, false
  if held and sub(held, 1, 16) == nonce then -- else of an earlier incarnation: says nothing
    h, o, t, n, longest = unpack_bytes('>c16ddI4d', held, 17)
    tokens = sub(held, 61)
  end
  local was_new = o < 0
  local at, size = 2, #operations
  while at <= size do
    local letter, token = byte(operations, at), sub(operations, at + 1, at + 12)
    if letter == 114 or letter == 112 then -- r reserve, p force
      local place = at + (letter == 114 and 29 or 13)
      if not behind[namespace] then
        -- What is known of the key's former partition says nothing of this one.
        if n ~= count then h, o, n = NONE, -1, count end
        if tokens ~= '' and all_expired(tokens) then
          -- An expired token is a write of unknown end. One live token left: purge nothing.
          tokens, h, changed = '', NONE, true
        end
        local verdict = -2 - o
        if letter == 114 and trust and tokens == '' and h == sub(operations, at + 13, at + 28)
            and now - t < max_age then
          verdict = o
        else
          local is_crowd
          tokens, is_crowd = put(tokens, token, trust and 1 or 0)
          if is_crowd then crowded = crowded + 1 end
          if now + life > longest then longest = now + life end
          changed, cleared = true, false
        end
        local high, low = byte(operations, place, place + 1)
        reply[namespaces + 4 + high * 256 + low] = verdict
      else
        local high, low = byte(operations, place, place + 1)
        reply[namespaces + 4 + high * 256 + low] = -1
      end
      at = place + 2
    elseif letter == 103 then -- g register
      if tokens ~= '' and all_expired(tokens) then tokens, h = '', NONE end
      tokens = put(tokens, token, 0)
      if now + life > longest then longest = now + life end
      changed = true
      at = at + 13
    elseif letter == 115 or letter == 107 then -- s settle, k settle but keep the token
      local place, trusted = find(tokens, token), false
      if place then
        trusted = byte(tokens, place + 20) == 1
        if letter == 115 then
          tokens = sub(tokens, 1, place - 1) .. sub(tokens, place + 21)
          changed = true
        end
      end
      local offset, placed_by = unpack_bytes('>dI4', operations, at + 29)
      if placed_by < n then
        -- In the key's former partition: it may be newer than anything in the present one, and
        -- than what is still on its way there.
        h, changed = NONE, true
        if not cleared then tokens, cleared = distrust(tokens), true end
      elseif placed_by > n or offset > o then
        o, t, n, changed = offset, now, placed_by, true
        h = trusted and sub(operations, at + 13, at + 28) or NONE
      end
      at = at + 41
    elseif letter == 120 then -- x refused
      local place = find(tokens, token)
      if place then
        tokens = sub(tokens, 1, place - 1) .. sub(tokens, place + 21)
        changed = true
      end
      at = at + 13
    else -- c clear: forget the content, trust nobody under way, keep tokens and offset
      h, changed = NONE, true
      if not cleared then tokens, cleared = distrust(tokens), true end
      at = at + 1
    end
  end
  if changed then
    local left = longest - now
    if left < max_age then left = max_age end
    local value = pack('>c16c16ddI4d', nonce, h, o, t, n, longest) .. tokens
    if not (was_new and is_full) then store(KEYS[k], value, format('%.0f', floor(left + 60000))) end
    if was_new and is_full then
      -- Nothing was known of the key, and nothing comes to be known, or memory would grow with
      -- every key. Its tokens stay as long as they live; none may set a digest without the offset.
      if o >= 0 then
        h, o, t, tokens, forgotten = NONE, -1, 0, distrust(tokens), forgotten + 1
      end
      redis.call('DEL', KEYS[k])
      if tokens ~= '' then
        redis.call('SET', KEYS[k], pack('>c16c16ddI4d', nonce, h, o, t, n, longest) .. tokens,
          'PX', format('%.0f', floor(longest - now + 60000)))
      end
    end
  end
end
reply[2], reply[3] = crowded, forgotten
return reply
