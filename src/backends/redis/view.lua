-- One page of a line, for people who look; changes nothing. KEYS: main, order, lease, tickets (see line.lua).
-- ARGV: kind ('m' or 'c'), the order after which to start, how many.
-- Answers: TIME in µs, what main holds, its PTTL, then the text and the end of the lease of each ticket.
local call = redis.call
local time = call('TIME')
local answer = { string.format('%.0f', time[1] * 1000000 + time[2]), '', -2 }
if ARGV[1] == 'm' then
  -- With a prefix that others use too, it may be anything.
  local value = redis.pcall('GET', KEYS[1])
  if type(value) == 'string' then answer[2], answer[3] = value, call('PTTL', KEYS[1]) end
end
for _, id in ipairs(call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[2], '+inf', 'LIMIT', 0, ARGV[3])) do
  answer[#answer + 1] = call('HGET', KEYS[4], id) or ''
  answer[#answer + 1] = call('ZSCORE', KEYS[3], id) or '0'
end
return answer
