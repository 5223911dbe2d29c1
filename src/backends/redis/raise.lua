-- For a quorum: no order at or below the floor is given from now on, and the run that learnt it is noted.
-- KEYS: the last order given, the mark. ARGV: the floor, the run.
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
if tonumber(ARGV[1]) > last then redis.call('SET', KEYS[1], ARGV[1]) end
if ARGV[2] ~= '' then redis.call('SET', KEYS[2], ARGV[2]) end
return '1'
