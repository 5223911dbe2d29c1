-- Stand in line. KEYS and tickets: see line.lua.
-- ARGV of each item: kind ('m' mutex, 'c' counted) and 'w' (waits) or '-'; the ticket's text before its order;
-- after it; ttl; floor of the order ('' for none); 'ID WEIGHT CAPACITY WAIT_TTL GROUP DROP...'

-- One mutex with nobody there, the usual case: four commands, before anything else is set up.
if #KEYS == 5 and string.byte(ARGV[2]) == 109 and redis.call('EXISTS', KEYS[2], KEYS[4]) == 0 then
  local time = redis.call('TIME')
  local order = time[1] * 1000000 + time[2]
  if ARGV[6] ~= '' and tonumber(ARGV[6]) > order then order = tonumber(ARGV[6]) end
  local text = string.format('%.0f', order)
  local last = redis.call('SET', KEYS[1], text, 'GET')
  if last and tonumber(last) >= order then
    text = string.format('%.0f', last + 1)
    redis.call('SET', KEYS[1], text)
  end
  redis.call('SET', KEYS[2], ARGV[3] .. text .. ARGV[4], 'PX', ARGV[5])
  return 'g' .. text
end

-- include line.lua

local STRIDE = 6

local function granted(line, at, id, weight, ttl)
  local order = draw(ARGV[at + 4])
  local ticket = ARGV[at + 1] .. order .. ARGV[at + 2]
  if not line.counted then
    call('SET', line.main, ticket, 'PX', ttl)
    return 'g' .. order
  end
  line.sum, line.top, line.changed = line.sum + weight, tonumber(order), true
  call('ZADD', line.order, order, id)
  call('HSET', line.tickets, id, ticket)
  lease(line, id, ttl)
  return 'g' .. order
end

local function waits(line, at, id, waitTtl)
  local order = draw(ARGV[at + 4])
  local ticket = ARGV[at + 1] .. order .. ARGV[at + 2]
  call('ZADD', line.order, order, id)
  call('HSET', line.tickets, id, ticket)
  return stand(line, id, ticket, false, 0, waitTtl)
end

local function free(line, weight, capacity)
  if not line.counted then return not line.value and call('EXISTS', line.order) == 0 end
  return line.sum + weight <= capacity
    and call('ZCOUNT', line.order, '(' .. format('%.0f', line.top), '+inf') == 0
end

-- The owner's earlier tickets, found by the client beforehand; one that changed hands since stays.
local function dropEarlier(line, list, head)
  local inbox = match(head, '^hf1 %S+ %S+ %d+ %d+ (%S+) $')
  for id in string.gmatch(list, '%S+') do
    local ticket = find(line, id)
    if ticket and ticket ~= 'x' and match(ticket, '^hf1 %S+ %S+ %d+ %d+ (%S+) ') ~= inbox then
      tell('x', ticket)
      letGo(line, id, ticket)
    end
  end
end

-- `dry`: only say whether it would be granted.
local function join(item, dry)
  local at = 2 + (item - 1) * STRIDE
  local mode, ttl = ARGV[at], ARGV[at + 3]
  local id, weight, capacity, waitTtl, drop = match(ARGV[at + 5], '^(%S+) (%d+) (%d+) (%d+) %S+(.*)$')
  local line = enter(2 + (item - 1) * 4, sub(mode, 1, 1) == 'c')
  local ticket, isGranted = find(line, id)
  local answer
  if ticket then
    if ticket == 'x' or match(ticket, '^hf1 %S+ (%S+)') == '!' then
      answer = 'x'
    elseif dry and isGranted then
      answer = 'g'
    else
      answer = stand(line, id, ticket, isGranted, ttl, waitTtl)
    end
  else
    if drop ~= '' then dropEarlier(line, drop, ARGV[at + 1]) end
    if free(line, tonumber(weight), tonumber(capacity)) then
      answer = dry and 'g' or granted(line, at, id, weight, ttl)
    elseif sub(mode, 2, 2) == 'w' then
      answer = waits(line, at, id, waitTtl)
    else
      answer = 'r'
    end
  end
  finish(line, item)
  return answer
end

-- A mutex with nobody there, within a batch.
local function quick(item)
  local at, key = 2 + (item - 1) * STRIDE, 2 + (item - 1) * 4
  if string.byte(ARGV[at]) ~= 109 or call('EXISTS', KEYS[key], KEYS[key + 2]) ~= 0 then return join(item) end
  local order = draw(ARGV[at + 4])
  call('SET', KEYS[key], ARGV[at + 1] .. order .. ARGV[at + 2], 'PX', ARGV[at + 3])
  return 'g' .. order
end

-- Takes back what a repeated call finds of a group that can no longer be had whole.
local function takeBack(item)
  local at = 2 + (item - 1) * STRIDE
  local line = enter(2 + (item - 1) * 4, sub(ARGV[at], 1, 1) == 'c')
  local id = match(ARGV[at + 5], '^(%S+)')
  local ticket = find(line, id)
  if ticket and ticket ~= 'x' then letGo(line, id, ticket) end
  finish(line, item)
end

-- All or nothing: ask each line first, and only then write.
local function joinGroup(list, first, past)
  local whole = true
  for item = first, past do
    list[item] = attempt(join, item, true)
    if list[item] ~= 'g' then whole = false end
  end
  for item = first, past do
    if whole then
      list[item] = attempt(join, item)
    elseif list[item] == 'g' then
      attempt(takeBack, item)
      list[item] = 'r'
    end
  end
end

local list = {}
local count = (#KEYS - 1) / 4
local item = 1
while item <= count do
  local group = match(ARGV[2 + (item - 1) * STRIDE + 5], '^%S+ %d+ %d+ %d+ (%S+)')
  if group == '-' then
    list[item] = attempt(quick, item)
    item = item + 1
  else
    local past = item
    while past < count and match(ARGV[2 + past * STRIDE + 5], '^%S+ %d+ %d+ %d+ (%S+)') == group do past = past + 1 end
    joinGroup(list, item, past)
    item = past + 1
  end
end
return answers(list)
