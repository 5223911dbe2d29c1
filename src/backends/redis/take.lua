-- Take mutexes that nobody stands in line for: the short way, with half of a line's keys. What it finds otherwise it leaves
-- as it is, for join.lua. Keys and tickets: see line.lua. One alone: see take-one.lua.
-- KEYS[1] the last order given; then of each item: main, lease
-- ARGV: TTL, FLOOR ('' for none), what stands in a ticket between its id and its order, what stands after, then the ids
-- The reply is one text, an answer a line: 'g' and the order, 'h' held by another, '-' whatever else.

local call = redis.call

local count, format, leases, answers = (#KEYS - 1) / 2, string.format, {}, {}

-- max(previous + 1, TIME), and as many in a row as there are items.
local function draw()
  local time = call('TIME')
  local first = time[1] * 1000000 + time[2]
  if ARGV[2] ~= '' then first = math.max(first, tonumber(ARGV[2])) end
  local last = call('SET', KEYS[1], format('%.0f', first + count - 1), 'GET')
  if not last or tonumber(last) < first then return first end
  call('SET', KEYS[1], format('%.0f', last + count))
  return last + 1
end

local function taken(item)
  if call('EXISTS', leases[item]) == 1 then return '-' end
  -- A key of another type is an error, which join.lua tells.
  local value, ours = redis.pcall('GET', KEYS[2 * item]), 'hf1 ' .. ARGV[4 + item] .. ' '
  return type(value) == 'string' and string.sub(value, 1, #ours) ~= ours and 'h' or '-'
end

for item = 1, count do leases[item] = KEYS[2 * item + 1] end

-- One command asks for all leases: mostly there are none. NX: two items may name one line.
local nobody, order = call('EXISTS', unpack(leases)) == 0, draw()
local middle, rest, ttl = ARGV[3], ARGV[4], ARGV[1]
for item = 1, count do
  local text = format('%.0f', order)
  local free = nobody or call('EXISTS', leases[item]) == 0
  if free and call('SET', KEYS[2 * item], 'hf1 ' .. ARGV[4 + item] .. middle .. text .. rest, 'PX', ttl, 'NX') then
    answers[item] = 'g' .. text
  else
    answers[item] = taken(item)
  end
  order = order + 1
end
return table.concat(answers, '\n')
