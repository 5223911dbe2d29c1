-- Take one mutex that nobody stands in line for: what take.lua does for many, with as little as there is. Keys and
-- tickets: see line.lua.
-- KEYS: the last order given, main, lease
-- ARGV: the ticket up to its order, the rest of it after that, TTL, and FLOOR where there is one
-- Answers the order; else 'h' held by another, '-' whatever else.

local call = redis.call

if call('EXISTS', KEYS[2], KEYS[3]) == 0 then
  local time = call('TIME')
  -- As text, with as many digits as every order has from 2001 to 2286: so texts compare like numbers, which cost more.
  local order = time[1] .. string.sub('00000' .. time[2], -6)
  if ARGV[4] and tonumber(ARGV[4]) > tonumber(order) then order = ARGV[4] end
  local last = call('SET', KEYS[1], order, 'GET')
  if last and (#last ~= #order or last >= order) then
    order = string.format('%.0f', math.max(order, last + 1))
    call('SET', KEYS[1], order)
  end
  call('SET', KEYS[2], ARGV[1] .. order .. ARGV[2], 'PX', ARGV[3])
  return tonumber(order)
end

if call('EXISTS', KEYS[3]) == 1 then return '-' end
-- A key of another type is an error, which join.lua tells.
local value, ours = redis.pcall('GET', KEYS[2]), string.match(ARGV[1], '^hf1 %S+ ')
return type(value) == 'string' and string.sub(value, 1, #ours) ~= ours and 'h' or '-'
