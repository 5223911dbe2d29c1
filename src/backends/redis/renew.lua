-- Keep alive, and say where each ticket stands. KEYS and tickets: see line.lua.
-- ARGV of each item: 'KIND TTL WAIT_TTL ID HANDLE', and ' FLOOR NEXT_HANDLE INBOX JSON' where something changes
-- ('-' for what does not).

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

local function renew(item)
  local kind, ttl, waitTtl, id, handle, change = match(ARGV[item], '^(.) (%d+) (%d+) (%S+) (%S+)(.*)$')
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

-- A mutex that is held, the usual case: two commands, so that 250 of them stay under a millisecond.
local function quick(item)
  local ttl, ticket = match(ARGV[item], '^m (%d+) %d+ (%S+ %S+)$')
  if ttl then
    local main, ours = KEYS[2 + (item - 1) * 4], 'hf1 ' .. ticket .. ' '
    local value = call('GET', main)
    if value and sub(value, 1, #ours) == ours then
      call('PEXPIRE', main, ttl)
      return 'g' .. match(value, TICKET_ORDER)
    end
  end
  return renew(item)
end

local list = {}
for item = 1, (#KEYS - 1) / 4 do list[item] = attempt(quick, item) end
return answers(list)
