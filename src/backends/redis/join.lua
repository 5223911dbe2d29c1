-- Stand in line. KEYS and tickets: see line.lua. Where nobody stands, take.lua is the shorter way.
-- ARGV: the channel of whoever asks, TTL, WAIT_TTL, FLOOR, JSON, and then each item: 'W' (waits) or 'T' (tries) and
-- its id where it is plain, else 'KIND WAITS TTL WAIT_TTL FLOOR GROUP ID WEIGHT CAPACITY DROP JSON': KIND is 'm' (mutex)
-- or 'c' (counted), WAITS 'w' or '-'; FLOOR, GROUP and DROP (ids, with commas) may be '-'; JSON '' is the shared one.

-- include line.lua

local SHARED = 5
local count = (#KEYS - 1) / 4

local function read(item)
  local text = ARGV[SHARED + item]
  if string.byte(text) < 97 then
    return {
      item = item, kind = 'm', waits = sub(text, 1, 1) == 'W' and 'w' or '-', ttl = ARGV[2], waitTtl = ARGV[3],
      floor = ARGV[4], group = '-', id = sub(text, 2), weight = '1', capacity = '1', drop = '-', json = ARGV[5],
    }
  end
  local ask = { item = item }
  ask.kind, ask.waits, ask.ttl, ask.waitTtl, ask.floor, ask.group, ask.id, ask.weight, ask.capacity, ask.drop, ask.json =
    match(text, '^(.) (.) (%d+) (%d+) (%S+) (%S+) (%S+) (%d+) (%d+) (%S+) (.*)$')
  if ask.json == '' then ask.json = ARGV[5] end
  return ask
end

local function write(ask)
  local order = draw(ask.floor)
  return order, 'hf1 ' .. ask.id .. ' = ' .. ask.weight .. ' ' .. ask.capacity .. ' ' .. ARGV[1] .. ' ' .. order .. ' ' .. ask.json
end

local function grant(line, ask)
  local order, ticket = write(ask)
  if not line.counted then
    call('SET', line.main, ticket, 'PX', ask.ttl)
    return 'g' .. order
  end
  line.sum, line.top, line.changed, line.joined = line.sum + ask.weight, tonumber(order), true, true
  call('ZADD', line.order, order, ask.id)
  call('HSET', line.tickets, ask.id, ticket)
  lease(line, ask.id, ask.ttl)
  return 'g' .. order
end

local function wait(line, ask)
  -- The first that waits for a mutex: its holder's client learns that a short leave will not do. A hint, like all messages.
  local holder = not line.counted and line.value and match(line.value, '^hf1 %S+ %S+ %d+ %d+ (%S+) ')
  if holder and call('EXISTS', line.order) == 0 then redis.pcall('PUBLISH', holder, 'c ' .. line.main) end
  local order, ticket = write(ask)
  line.joined = true
  call('ZADD', line.order, order, ask.id)
  call('HSET', line.tickets, ask.id, ticket)
  return stand(line, ask.id, ticket, false, 0, ask.waitTtl)
end

local function free(line, ask)
  if not line.counted then return not line.value and call('EXISTS', line.order) == 0 end
  return line.sum + ask.weight <= tonumber(ask.capacity)
    and call('ZCOUNT', line.order, '(' .. format('%.0f', line.top), '+inf') == 0
end

-- The owner's earlier tickets, found by the client beforehand; one that came into this client's hands since stays,
-- and so does one that was released: it keeps others out on purpose (minHold).
local function dropEarlier(line, ids)
  for id in string.gmatch(ids, '[^,]+') do
    local ticket = find(line, id)
    if ticket and ticket ~= 'x' then
      local handle, inbox = match(ticket, '^hf1 %S+ (%S+) %d+ %d+ (%S+) ')
      if handle ~= '!' and inbox ~= ARGV[1] then
        tell('x', ticket)
        letGo(line, id, ticket)
      end
    end
  end
end

-- `dry`: only say whether it would be granted.
local function join(ask, dry)
  local line = enter(2 + (ask.item - 1) * 4, ask.kind == 'c')
  local ticket, granted = find(line, ask.id)
  local answer
  if not ticket and line.counted and alive(line, ':' .. ask.id) then ticket = 'x' end
  if not ticket and ask.drop ~= '-' then dropEarlier(line, ask.drop) end
  if ticket and (ticket == 'x' or match(ticket, '^hf1 %S+ (%S+)') == '!') then
    answer = 'x'
  elseif ticket then
    answer = dry and granted and 'g' or stand(line, ask.id, ticket, granted, ask.ttl, ask.waitTtl)
  elseif free(line, ask) then
    answer = dry and 'g' or grant(line, ask)
  elseif ask.waits == 'w' then
    answer = wait(line, ask)
  elseif line.more and not line.value then
    -- There are more dead than one script may clear away: whether anybody lives is for the next to find out.
    answer = 'm'
  else
    answer = 'r'
  end
  finish(line, ask.item)
  return answer
end

-- A mutex with nobody there: no need to look at its line.
local function quick(ask)
  local key = 2 + (ask.item - 1) * 4
  if ask.kind == 'c' or call('EXISTS', KEYS[key], KEYS[key + 2]) ~= 0 then return join(ask) end
  local order, ticket = write(ask)
  call('SET', KEYS[key], ticket, 'PX', ask.ttl)
  return 'g' .. order
end

-- Takes back what a repeated call finds of a group that can no longer be had whole.
local function takeBack(ask)
  local line = enter(2 + (ask.item - 1) * 4, ask.kind == 'c')
  local ticket = find(line, ask.id)
  if ticket and ticket ~= 'x' then letGo(line, ask.id, ticket) end
  finish(line, ask.item)
end

local function wouldGrant(ask)
  local key = 2 + (ask.item - 1) * 4
  if ask.kind ~= 'c' and call('EXISTS', KEYS[key], KEYS[key + 2]) == 0 then return 'g' end
  return join(ask, true)
end

-- All or nothing: ask each line first, and only then write.
local function joinGroup(list, asks)
  local whole = true
  for _, ask in ipairs(asks) do
    list[ask.item] = attempt(wouldGrant, ask)
    if list[ask.item] ~= 'g' then whole = false end
  end
  for _, ask in ipairs(asks) do
    if whole then
      list[ask.item] = attempt(quick, ask)
    elseif list[ask.item] == 'g' then
      attempt(takeBack, ask)
      list[ask.item] = 'r'
    end
  end
end

local list, group = {}, {}
for item = 1, count do
  local ask = read(item)
  if #group > 0 and group[1].group ~= ask.group then
    joinGroup(list, group)
    group = {}
  end
  if ask.group == '-' then list[item] = attempt(quick, ask) else group[#group + 1] = ask end
end
if #group > 0 then joinGroup(list, group) end
return answers(list)
