-- Let go of one mutex that nobody stands in line for: what give.lua does for many, with as little as there is.
-- KEYS: main, lease (see line.lua)
-- ARGV: how the ticket starts that is let go of
-- Answers 1: it was held and is free now; '-' whatever else.

-- A key of another type is an error, which leave.lua tells.
local value, ours = redis.pcall('GET', KEYS[1]), ARGV[1]
if type(value) == 'string' and string.sub(value, 1, #ours) == ours and redis.call('EXISTS', KEYS[2]) == 0 then
  return redis.call('DEL', KEYS[1])
end
return '-'
