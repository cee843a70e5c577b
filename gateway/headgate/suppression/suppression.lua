-- The rules of the suppression protocol. suppression/rules.py packs the messages of this script. A
-- property test compares the script with tests/support/doubles/suppression_rules.py. Redis runs
-- nothing else meanwhile, so the work of a call is linear in its operations, and a key has at most
-- MAX_TOKENS tokens.
-- KEYS: incarnations, marks, then entries.  ARGV[1]: header.  ARGV[2]: the size of each entry's operations
-- (two bytes).  ARGV[3]: the operations, entry after entry.
-- Returns: Redis' clock (ms), how many reservations were crowded, how many entries memory had no
-- room for, the verdicts of the reservations (packed), the state of each namespace.
if redis.replicate_commands then redis.replicate_commands() end -- Redis 6: TIME before a write
local byte, sub, find_text = string.byte, string.sub, string.find
local pack, unpack_bytes = struct.pack, struct.unpack
local call, pcall = redis.call, redis.pcall
local floor, format = math.floor, string.format -- %.0f: newer versions write 1e+10 for a number
local header, sizes, all = ARGV[1], ARGV[2], ARGV[3]
local R, fresh, life, quarantine, max_age, retain, first = unpack_bytes('>c16c16dddd', header)
local clock = call('TIME')
local now = clock[1] * 1000 + floor(clock[2] / 1000)
local nonces, opened, counts, behind, tails = {}, {}, {}, {}, {}
local namespaces = (#header - first + 1) / 13
local reply, verdicts, crowded = {now, 0, 0, ''}, {}, 0
local is_full, forgotten = false, 0
local NONE, CROWD = string.rep('\0', 16), string.rep('\255', 12)
local MAX_TOKENS = 64 -- as in suppression_rules.py
local FULL = MAX_TOKENS * 21
local ENTRY = '>c16c16ddI4d'
local NOW = pack('>d', now)
local MARGIN = 60000
local CHUNK = 31 -- keys a command: the objects of up to 32 arguments are used again by Redis

-- What is written is to stay for `span`. What would go sooner gets longer than that, `ahead`, so that
-- most writes leave the expiry alone: setting it costs as much again as the write.
local span = math.max(life, max_age)
local needed = now + span
local ahead = floor((needed + span / 8) / 10000) * 10000 + 10000

local known_kept, known_ms
local function ms_until(kept)
  if kept ~= known_kept then
    known_kept, known_ms = kept, format('%.0f', floor(kept - now + MARGIN))
  end
  return known_ms
end

-- kept: the key goes MARGIN later.  is_as_before: it would do so anyway.
-- Memory may be full (noeviction): then a script's first write is refused, unless it needs none.
-- Behind one that needs none, such as DEL, Redis lets the script go on: so it is documented.
local function store(key, value, kept, is_as_before)
  if not is_full then
    local done
    if is_as_before then
      done = pcall('SET', key, value, 'KEEPTTL')
    else
      done = pcall('SET', key, value, 'PX', ms_until(kept))
    end
    if not done.err then return end
    if not find_text(done.err, 'OOM', 1, true) then
      call('SET', key, value, 'PX', ms_until(kept))
    end
    is_full = true
  end
  call('DEL', key)
  call('SET', key, value, 'PX', ms_until(kept))
end

local before = 2 * namespaces -- the entries stand behind so many keys
local found = call('MGET', unpack(KEYS, 1, before))
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
  -- Events of the topic lie on somebody's disk, who may know it by another id.
  local is_marked = found[namespaces + i]
  if flags >= 4 then
    store(KEYS[namespaces + i], '1', now + quarantine / 2 - MARGIN)
    is_marked = true
  end
  if is_marked then is_open = false end
  if changed or now - renewed > retain / 4 then
    local value = pack('>c16c16ddI4c8', nonce, R, born, now, count, whose)
    store(KEYS[i], value, now + retain - MARGIN)
  end
  nonces[i], opened[i], counts[i], behind[i] = nonce, is_open, count, caller < count
  tails[i] = pack('>dB', now + life, is_open and 1 or 0)
  reply[i + 4] = pack('>c16I4d', nonce, count, born + quarantine)
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

-- Nothing was known of the key, memory is full, and nothing comes to be known, or memory would grow
-- with every key. Its tokens stay as long as they live; none may set a digest without the offset.
local function store_unknown(key, nonce, h, o, t, n, tokens)
  if o >= 0 then
    h, o, t, tokens, forgotten = NONE, -1, 0, distrust(tokens), forgotten + 1
  end
  local kept = 0
  for at = #tokens - 8, 1, -21 do
    local deadline = unpack_bytes('>d', tokens, at)
    if deadline > kept then kept = deadline end
  end
  call('DEL', key)
  if tokens ~= '' then
    call('SET', key, pack(ENTRY, nonce, h, o, t, n, kept) .. tokens, 'PX', ms_until(kept))
  end
end

-- Any operations on any entry: those in `all` from `at` to `last`.
local function apply(key, held, at, last)
  local namespace = byte(all, at) + 1
  local nonce, trust, count = nonces[namespace], opened[namespace], counts[namespace]
  local h, o, t, n, kept, tokens, changed, cleared = NONE, -1, 0, 0, 0, '', false, false
  if held and sub(held, 1, 16) == nonce then -- else of an earlier incarnation: says nothing
    h, o, t, n, kept = unpack_bytes('>c16ddI4d', held, 17)
    tokens = sub(held, 61)
  end
  local was_new = o < 0
  at = at + 1
  while at <= last do
    local letter, token = byte(all, at), sub(all, at + 1, at + 12)
    if letter == 114 or letter == 112 then -- r reserve, p force
      local place, verdict = at + (letter == 114 and 29 or 13), -1
      if not behind[namespace] then
        -- What is known of the key's former partition says nothing of this one.
        if n ~= count then h, o, n = NONE, -1, count end
        if tokens ~= '' and all_expired(tokens) then
          -- An expired token is a write of unknown end. One live token left: purge nothing.
          tokens, h, changed = '', NONE, true
        end
        verdict = -2 - o
        if letter == 114 and trust and tokens == '' and h == sub(all, at + 13, at + 28)
            and now - t < max_age then
          verdict = o
        else
          local is_crowd
          tokens, is_crowd = put(tokens, token, trust and 1 or 0)
          if is_crowd then crowded = crowded + 1 end
          changed, cleared = true, false
        end
      end
      local high, low = byte(all, place, place + 1)
      verdicts[high * 256 + low + 1] = verdict
      at = place + 2
    elseif letter == 103 then -- g register
      if tokens ~= '' and all_expired(tokens) then tokens, h = '', NONE end
      tokens, changed = put(tokens, token, 0), true
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
      local offset, placed_by = unpack_bytes('>dI4', all, at + 29)
      if placed_by < n then
        -- In the key's former partition: it may be newer than anything in the present one, and
        -- than what is still on its way there.
        h, changed = NONE, true
        if not cleared then tokens, cleared = distrust(tokens), true end
      elseif placed_by > n or offset > o then
        o, t, n, changed = offset, now, placed_by, true
        h = trusted and sub(all, at + 13, at + 28) or NONE
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
  if not changed then return end
  local is_as_before = kept >= needed
  if not is_as_before then kept = ahead end
  if not (was_new and is_full) then
    store(key, pack(ENTRY, nonce, h, o, t, n, kept) .. tokens, kept, is_as_before)
  end
  if was_new and is_full then store_unknown(key, nonce, h, o, t, n, tokens) end
end

-- One reservation of an entry without tokens: it is unchanged, or its token comes behind the rest.
-- Returns whether it was that. Where numbers are compared, it is because a new string costs more.
local function reserved(key, held, at)
  local namespace, letter = byte(all, at, at + 1)
  local nonce, h = unpack_bytes('>c16I4', held)
  local o, t, n, kept = unpack_bytes('>ddI4d', held, 33)
  namespace = namespace + 1
  if letter ~= 114 or nonce ~= nonces[namespace] or n ~= counts[namespace] or behind[namespace] then
    return false
  end
  local high, low = byte(all, at + 30, at + 31)
  if h == unpack_bytes('>I4', all, at + 14) and opened[namespace] and now - t < max_age
      and sub(held, 17, 32) == sub(all, at + 14, at + 29) then
    verdicts[high * 256 + low + 1] = o
    return true
  end
  if kept < needed or is_full then return false end
  -- As long as it becomes, or an error: then memory is full.
  if pcall('APPEND', key, sub(all, at + 2, at + 13) .. tails[namespace]) ~= 81 then return false end
  verdicts[high * 256 + low + 1] = -2 - o
  return true
end

-- The settlement of an entry's only token, newer than what is known. Returns whether it was that.
local function settled(key, held, at)
  local namespace, letter = byte(all, at, at + 1)
  local nonce, o = unpack_bytes('>c16', held), unpack_bytes('>d', held, 33)
  local n, kept, a, b, c = unpack_bytes('>I4dI4I4I4', held, 49)
  local d, e, f = unpack_bytes('>I4I4I4', all, at + 2)
  local offset, placed_by = unpack_bytes('>dI4', all, at + 30)
  if letter ~= 115 or a ~= d or b ~= e or c ~= f or nonce ~= nonces[namespace + 1]
      or placed_by ~= n or offset <= o or kept < needed or is_full then
    return false
  end
  local value
  if byte(held, 81) == 1 then
    value = nonce .. sub(all, at + 14, at + 37) .. NOW .. sub(held, 49, 60)
  else
    value = nonce .. NONE .. sub(all, at + 30, at + 37) .. NOW .. sub(held, 49, 60)
  end
  return not pcall('SET', key, value, 'KEEPTTL').err
end

-- What is common goes a way of its own, with the same end.
local at, width = 1, {unpack_bytes('>' .. string.rep('H', #KEYS - before), sizes)}
local function apply_all(keys, first, last)
  local found = call('MGET', unpack(keys, first, last))
  for k = first, last do
    local key, held, size, is_done = keys[k], found[k - first + 1], width[k - before], false
    if size == 32 and held and #held == 60 then
      is_done = reserved(key, held, at)
    elseif size == 42 and held and #held == 81 then
      is_done = settled(key, held, at)
    end
    if not is_done then apply(key, held, at, at + size - 1) end
    at = at + size
  end
end

for k = before + 1, #KEYS, CHUNK do
  apply_all(KEYS, k, math.min(k + CHUNK - 1, #KEYS))
end
reply[2], reply[3] = crowded, forgotten
reply[4] = pack('>' .. string.rep('i8', #verdicts), unpack(verdicts))
return reply
