-- Keep alive, and say where each ticket stands. KEYS and tickets: see line.lua.
-- ARGV: TTL, WAIT_TTL, and then each item: 'R' and its id where it is plain (its first handle), else
-- 'KIND TTL WAIT_TTL ID HANDLE', and ' FLOOR NEXT_HANDLE INBOX JSON' where something changes ('-' for what does not).

-- include line.lua

-- A handover, or an order raised to what a quorum agreed on.
local function rewrite(line, id, ticket, change)
  local floor, handle, inbox, json = match(change, '^ (%S+) (%S+) (%S+) (.*)$')
  local _, oldHandle, weight, capacity, oldInbox, order, oldJson = match(ticket, TICKET)
  if handle == '-' then handle, inbox, json = oldHandle, oldInbox, oldJson end
  if floor ~= '-' and tonumber(floor) > tonumber(order) then
    if line.counted and call('ZCOUNT', line.order, '(' .. format('%.0f', line.top), '+inf') > 0 then
      return nil, '!others wait in this line: an order can only be raised where nobody does'
    end
    order = floor
    last = math.max(last or tonumber(call('GET', KEYS[1]) or 0), tonumber(floor))
    drawn = true
    if line.counted then
      call('ZADD', line.order, order, id)
      line.top, line.changed = math.max(line.top, tonumber(order)), true
    end
  end
  local text = 'hf1 ' .. id .. ' ' .. handle .. ' ' .. weight .. ' ' .. capacity .. ' ' .. inbox .. ' ' .. order .. ' ' .. json
  if line.value == ticket then
    call('SET', line.main, text, 'KEEPTTL')
    line.value = text
  else
    call('HSET', line.tickets, id, text)
  end
  return text
end

local SHARED = 2

local function read(item)
  local text = ARGV[SHARED + item]
  if string.byte(text) < 97 then return 'm', ARGV[1], ARGV[2], sub(text, 2), '=', '' end
  return match(text, '^(.) (%d+) (%d+) (%S+) (%S+)(.*)$')
end

local function renew(item)
  local kind, ttl, waitTtl, id, handle, change = read(item)
  local line = enter(2 + (item - 1) * 4, kind == 'c')
  local ticket, granted = find(line, id)
  local answer = 'x'
  if ticket and ticket ~= 'x' then
    local stands = match(ticket, '^hf1 %S+ (%S+)')
    -- A swap that is asked for again has been made: the reply was lost.
    if stands == handle or (change ~= '' and stands ~= '!' and stands == match(change, '^ %S+ (%S+)')) then
      local refusal
      if change ~= '' then ticket, refusal = rewrite(line, id, ticket, change) end
      answer = refusal or stand(line, id, ticket, granted, ttl, waitTtl)
    end
  end
  finish(line, item)
  return answer
end

local function plainItems(count)
  local items = {}
  for item = 1, count do
    if string.byte(ARGV[SHARED + item]) < 97 then items[#items + 1] = item end
  end
  return items
end

-- Mutexes that are held, the usual case: one command each beside one for all, so that 250 stay under a millisecond.
local function prolong(list, items)
  if #items == 0 then return end
  local mains = {}
  for i = 1, #items do mains[i] = KEYS[4 * items[i] - 2] end
  local values = call('MGET', unpack(mains))
  for i = 1, #items do
    local ours = 'hf1 ' .. sub(ARGV[SHARED + items[i]], 2) .. ' = '
    if values[i] and sub(values[i], 1, #ours) == ours then
      call('PEXPIRE', mains[i], ARGV[1])
      list[items[i]] = 'g' .. match(values[i], TICKET_ORDER)
    end
  end
end

local list, count = {}, (#KEYS - 1) / 4
prolong(list, plainItems(count))
for item = 1, count do
  if not list[item] then list[item] = attempt(renew, item) end
end
return answers(list)
