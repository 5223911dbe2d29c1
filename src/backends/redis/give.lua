-- Let go of mutexes that nobody stands in line for: the short way, with half of a line's keys. What it finds otherwise it
-- leaves as it is, for leave.lua. Keys and tickets: see line.lua. One alone: see give-one.lua.
-- KEYS[1] the last order given, of no use here; then of each item: main, lease
-- ARGV: their ids
-- The reply is one text, an answer a line: '1' it was held and is free now, '-' whatever else.

local call, sub = redis.call, string.sub

-- One command for all of them costs a fraction of one for each.
local mains, leases, gone, answers = {}, {}, {}, {}
for item = 1, #ARGV do mains[item], leases[item] = KEYS[2 * item], KEYS[2 * item + 1] end
local values, nobody = call('MGET', unpack(mains)), call('EXISTS', unpack(leases)) == 0
for item = 1, #ARGV do
  local value, ours = values[item], 'hf1 ' .. ARGV[item] .. ' = '
  if value and sub(value, 1, #ours) == ours and (nobody or call('EXISTS', leases[item]) == 0) then
    gone[#gone + 1] = mains[item]
    answers[item] = '1'
  else
    answers[item] = '-'
  end
end
if #gone > 0 then call('DEL', unpack(gone)) end
return table.concat(answers, '\n')
