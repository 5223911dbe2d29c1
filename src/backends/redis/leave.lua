-- Release or give up, and grant whom the rule grants now. KEYS and tickets: see line.lua. Where nobody waits, give.lua is
-- the shorter way.
-- ARGV of each item: 'L' and its id where it is plain (its first handle, nothing to be kept), else
-- 'KIND KEEP TOMBSTONE ID HANDLE' (HANDLE '-': whatever it is)

-- One mutex, the usual case, before anything else is set up: with nobody waiting three commands, else the first that
-- waits has it now, told by its inbox (as in line.lua, without looking at the rest of the line).
if #KEYS == 5 and string.byte(ARGV[1]) < 97 then
  local call = redis.call
  local main, lease = KEYS[2], KEYS[4]
  local value, ours = redis.pcall('GET', main), 'hf1 ' .. string.sub(ARGV[1], 2) .. ' = '
  if type(value) == 'string' and string.sub(value, 1, #ours) == ours then
    if call('EXISTS', lease) == 0 then
      call('DEL', main)
      return '1'
    end
    local order, tickets = KEYS[3], KEYS[5]
    local next, time = call('ZRANGE', order, 0, 0)[1], call('TIME')
    local ends, ticket = next and call('ZSCORE', lease, next), next and call('HGET', tickets, next)
    local left = ends and ends - (time[1] * 1000000 + time[2])
    if ticket and left and left > 0 then
      call('ZREM', order, next)
      call('ZREM', lease, next)
      call('HDEL', tickets, next)
      call('SET', main, ticket, 'PX', string.format('%.0f', math.ceil(left / 1000)))
      local inbox, number = string.match(ticket, '^hf1 %S+ %S+ %d+ %d+ (%S+) (%d+) ')
      redis.pcall('PUBLISH', inbox, 'g ' .. next .. ' ' .. number)
      return '1'
    end
  end
end

-- include line.lua

-- Goes on standing for a while, but nobody speaks for it any more.
local function keep(line, id, ticket, ms)
  local left = string.gsub(ticket, '^(hf1 %S+) %S+', '%1 !', 1)
  if line.value == ticket then
    call('SET', line.main, left, 'PX', ms)
    line.value = left
  else
    call('HSET', line.tickets, id, left)
    lease(line, id, ms)
  end
end

local function read(item)
  if string.byte(ARGV[item]) < 97 then return 'm', '0', '0', sub(ARGV[item], 2), '=' end
  return match(ARGV[item], '^(.) (%d+) (%d+) (%S+) (%S+)$')
end

local function leave(item)
  local kind, keepMs, tombstoneMs, id, handle = read(item)
  local line = enter(2 + (item - 1) * 4, kind == 'c')
  local ticket, granted = find(line, id)
  local answer, grave = '0', id
  if ticket and ticket ~= 'x' and (handle == '-' or handle == match(ticket, '^hf1 %S+ (%S+)')) then
    answer = '1'
    if keepMs ~= '0' and granted then
      keep(line, id, ticket, keepMs)
      -- Its place among the tickets is taken while it is kept, and that may end first.
      if line.counted then grave = ':' .. id end
    else
      letGo(line, id, ticket)
      if handle == '-' then tell('x', ticket) end
    end
  end
  -- Somebody else's by now, and in the very place where the tombstone would go.
  local stays = ticket and answer == '0' and ticket ~= 'x' and ticket ~= line.value
  if tombstoneMs ~= '0' and not stays then
    call('HSET', line.tickets, grave, 'x')
    lease(line, grave, tombstoneMs)
  end
  finish(line, item)
  return answer
end

-- A mutex with nobody waiting, beside others that have.
local function quick(item)
  if string.byte(ARGV[item]) < 97 then
    local key, ours = 4 * item - 2, 'hf1 ' .. sub(ARGV[item], 2) .. ' = '
    local value = call('GET', KEYS[key])
    if value and sub(value, 1, #ours) == ours and call('EXISTS', KEYS[key + 2]) == 0 then
      call('DEL', KEYS[key])
      return '1'
    end
  end
  return leave(item)
end

local list, count = {}, (#KEYS - 1) / 4
for item = 1, count do list[item] = attempt(quick, item) end
return answers(list)
