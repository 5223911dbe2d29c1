-- The line on Redis: what join, renew and leave share.
--
-- KEYS[1]        the last order given (one a server; one a slot on a Cluster)
-- KEYS[at..+3]   of each item: main, order, lease, tickets
--   main     a mutex only: its holder's ticket as a plain string with a TTL, like any `SET NX PX` lock
--   order    sorted set: id by order. A mutex: those who wait; else all tickets
--   lease    sorted set: id by the end of its lease (microseconds of TIME), tombstones included
--   tickets  hash: id to ticket, or to 'x' for a tombstone (':' and the id while `minHold` keeps a counted ticket that
--            has left); '+' to 'sum top': the weight granted so far
--            and the order of the last ticket granted (not for a mutex, whose granted ticket is in main)
-- A ticket is the text 'hf1 ID HANDLE WEIGHT CAPACITY INBOX ORDER JSON'; HANDLE is '=' while it is the
-- id itself, and '!' once the ticket has left; INBOX is the channel on which its client listens.
-- ARGV            what the items share, then one text for each: fewer, longer arguments are cheaper for the client than
--                 many. An item that starts with a capital is a mutex and plain: it asks for just what they share.
-- The reply is one text, an answer a line; one more says which lines have more to do than one script may.
--
-- Numbers: microseconds since 1970 are exact in a double until the year 2255, but Lua writes them as
-- 1.7e+15, so every number that becomes text goes through '%.0f'.
local call, format, match, sub = redis.call, string.format, string.match, string.sub
local TICKET = '^hf1 (%S+) (%S+) (%d+) (%d+) (%S+) (%d+) (.*)$'
local TICKET_ORDER = '^hf1 %S+ %S+ %d+ %d+ %S+ (%d+) '
-- How many dead tickets one script may clear away, and tickets it may grant, beside one for each of its items: so that
-- it ends within about a millisecond, however many there are in however many of its lines. The rest is for the next.
local spare = 100
-- How many waiting tickets look when a lease ends, and how often at a foreign lock (ms).
local LOOKING, FOREIGN_LOOK = 8, 200

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local last, drawn
local unfinished = {}
-- The line that was entered last.
local current

-- max(previous + 1, TIME): grows although the clock steps back, and although the key is lost.
local function draw(floor)
  if not last then last = tonumber(call('GET', KEYS[1]) or 0) end
  last = math.max(last + 1, now, tonumber(floor) or 0)
  drawn = true
  return format('%.0f', last)
end

-- A hint: whatever becomes of it (no right to publish, nobody there), the step itself has been made.
local function tell(word, ticket)
  local id, inbox, order = match(ticket, '^hf1 (%S+) %S+ %d+ %d+ (%S+) (%d+) ')
  redis.pcall('PUBLISH', inbox, word .. ' ' .. id .. ' ' .. order)
end

-- All of a line's keys go by themselves a little after the last lease of a client that died.
local function outlive(line, ms)
  local left = call('PTTL', line.lease)
  if left < ms then
    for _, key in ipairs({ line.order, line.lease, line.tickets }) do call('PEXPIRE', key, ms + 5000) end
  elseif line.joined and call('PTTL', line.order) == -1 then
    -- Tombstones were there before the first ticket, and outlive it.
    call('PEXPIRE', line.order, left)
  end
end

local function lease(line, id, ms)
  ms = tonumber(ms)
  call('ZADD', line.lease, format('%.0f', now + ms * 1000), id)
  outlive(line, ms)
end

local function alive(line, id)
  local ends = call('ZSCORE', line.lease, id)
  return ends and tonumber(ends) > now
end

-- Takes a ticket (or a tombstone) out of the sets. What it held, others may have now: advance() follows.
local function remove(line, id, ticket)
  call('ZREM', line.lease, id)
  call('HDEL', line.tickets, id)
  if call('ZREM', line.order, id) == 1 and line.counted and ticket then
    local weight, order = match(ticket, '^hf1 %S+ %S+ (%d+) %d+ %S+ (%d+) ')
    if tonumber(order) <= line.top then line.sum = line.sum - weight end
    line.changed = true
  end
end

-- All at once: three commands, however many have died.
local function sweep(line)
  local dead = call('ZRANGEBYSCORE', line.lease, '-inf', format('%.0f', now), 'LIMIT', 0, spare)
  if #dead == 0 then return end
  if line.counted then
    for _, id in ipairs(dead) do
      local weight, order = match(call('HGET', line.tickets, id) or '', '^hf1 %S+ %S+ (%d+) %d+ %S+ (%d+) ')
      if weight and tonumber(order) <= line.top then line.sum = line.sum - weight end
      line.changed = true
    end
  end
  call('ZREM', line.lease, unpack(dead))
  call('HDEL', line.tickets, unpack(dead))
  call('ZREM', line.order, unpack(dead))
  spare = spare - #dead
  if spare == 0 then line.more = true end
end

-- A mutex: the first living ticket moves from the line into main, with what is left of its waiting lease.
local function advanceMutex(line)
  if line.value then return end
  repeat
    local id = call('ZPOPMIN', line.order)[1]
    if not id then return end
    local ticket, ends = call('HGET', line.tickets, id), call('ZSCORE', line.lease, id)
    call('HDEL', line.tickets, id)
    call('ZREM', line.lease, id)
    if ticket and ends and tonumber(ends) > now then
      call('SET', line.main, ticket, 'PX', format('%.0f', math.ceil((ends - now) / 1000)))
      line.value = ticket
      return tell('g', ticket)
    end
    spare = spare - 1
  until spare <= 0
  line.more = true
end

-- The others: as many as fit, in order, each by its own capacity. Costs what it grants, not what waits.
local function advanceCounted(line)
  repeat
    local id = call('ZRANGEBYSCORE', line.order, '(' .. format('%.0f', line.top), '+inf', 'LIMIT', 0, 1)[1]
    if not id then return end
    local ticket = call('HGET', line.tickets, id)
    if not ticket or not alive(line, id) then
      remove(line, id, ticket)
    else
      local weight, capacity, order = match(ticket, '^hf1 %S+ %S+ (%d+) (%d+) %S+ (%d+) ')
      if line.sum + weight > tonumber(capacity) then return end
      line.sum, line.top, line.changed = line.sum + weight, tonumber(order), true
      tell('g', ticket)
    end
    spare = spare - 1
  until spare <= 0
  line.more = true
end

local function advance(line)
  if line.counted then advanceCounted(line) else advanceMutex(line) end
end

-- The line as it is now: lapsed tickets gone, and granted whom the rule grants.
local function enter(at, counted)
  local line = { main = KEYS[at], order = KEYS[at + 1], lease = KEYS[at + 2], tickets = KEYS[at + 3], counted = counted }
  current = line
  if counted then
    local sum, top = match(call('HGET', line.tickets, '+') or '0 0', '^(%d+) (%d+)$')
    line.sum, line.top = tonumber(sum), tonumber(top)
  else
    line.value = call('GET', line.main)
  end
  if spare > 0 then
    sweep(line)
    advance(line)
  else
    line.more = true
  end
  return line
end

-- Writes down what changed, and notes when there was more to do than one script may.
local function finish(line, item)
  if line.changed then
    if call('EXISTS', line.order) == 1 then
      call('HSET', line.tickets, '+', format('%.0f %.0f', line.sum, line.top))
    else
      call('HDEL', line.tickets, '+')
    end
  end
  if line.more then unfinished[#unfinished + 1] = item end
end

-- The ticket with this id (or 'x'), and whether it is granted. Nothing when it is not there or has lapsed.
local function find(line, id)
  if line.value and match(line.value, '^hf1 (%S+) ') == id then return line.value, true end
  local ticket = call('HGET', line.tickets, id)
  if not ticket then return end
  if not alive(line, id) then
    remove(line, id, ticket)
    advance(line)
    return
  end
  return ticket, line.counted and ticket ~= 'x' and tonumber(match(ticket, TICKET_ORDER)) <= line.top
end

-- Takes a found ticket off its line. A mutex goes to the next without being free in between: on a Cluster, a key that is
-- gone from a slot on its way to another node cannot be written there any more.
local function letGo(line, id, ticket)
  if line.value == ticket then
    line.value = false
    advance(line)
    if not line.value then call('DEL', line.main) end
  else
    remove(line, id, ticket)
    advance(line)
  end
end

-- Starts the lease of a ticket anew and says where it stands.
local function stand(line, id, ticket, granted, ttl, waitTtl)
  local order = match(ticket, TICKET_ORDER)
  if granted then
    if line.counted then lease(line, id, ttl) else call('PEXPIRE', line.main, ttl) end
    return 'g' .. order
  end
  lease(line, id, waitTtl)
  local ahead = call('ZRANK', line.order, id)
  local first = line.counted and call('ZCOUNT', line.order, '(' .. format('%.0f', line.top), '(' .. order) or ahead
  local look = tonumber(waitTtl)
  -- Only the first few look when a lease ahead ends, one after the other: all of them would be a herd.
  if first < LOOKING then
    local ends
    if line.counted then
      ends = math.ceil((call('ZRANGE', line.lease, 0, 0, 'WITHSCORES')[2] - now) / 1000)
    else
      ends = call('PTTL', line.main)
      -- A foreign lock tells nobody when it goes, and may have no TTL at all.
      if ends < 0 or (ends > FOREIGN_LOOK and sub(line.value, 1, 4) ~= 'hf1 ') then ends = FOREIGN_LOOK end
    end
    look = math.min(look, math.max(ends, 0) + 1 + 5 * first)
  end
  if not line.counted and line.value then ahead = ahead + 1 end
  return format('w%.0f %.0f', ahead, look)
end

local function mishap(text)
  return '!' .. string.gsub(text, '[\r\n]', ' ')
end

-- One bad item never spoils the others: its error is its answer. What it took away until then is gone, and counts no more:
-- so ends whatever takes the last ticket from a line whose slot is on its way to another node of a Cluster.
local function attempt(fn, ...)
  current = nil
  local done, answer = pcall(fn, ...)
  if done then return answer end
  if current and current.changed then
    redis.pcall('HSET', current.tickets, '+', format('%.0f %.0f', current.sum, current.top))
  end
  return mishap(type(answer) == 'table' and answer.err or tostring(answer))
end

local function answers(list)
  if drawn then call('SET', KEYS[1], format('%.0f', last)) end
  if #unfinished > 0 then list[#list + 1] = '>' .. table.concat(unfinished, ' ') end
  return table.concat(list, '\n')
end
