-- The functions of the libraries that are written in Lua. The C functions of Lua cannot be interrupted, so what can take
-- long is here, where every instruction counts, or it counts its work with `spend`.
--
-- `base` are the globals, and `rust` has the functions that are written in Rust. The result is a function that begins a
-- call.
local base, rust = ...
local error, pcall, select, tonumber, tostring, type, unpack =
    base.error, base.pcall, base.select, base.tonumber, base.tostring, base.type, base.unpack
local min = base.math.min
local check, search, spend = rust.check, rust.search, rust.spend

-- Shorter work does not count.
local SHORT = 100
-- Each level needs the stack of C, which has 200.
local LEVELS_MAX = 100
local levels = 0

local function leave(...)
    levels = levels - 1
    return check(...)
end

-- `check` raises the end of a budget again.
function base.pcall(...)
    if select('#', ...) == 0 then error('bad argument #1 to pcall (value expected)', 2) end
    if levels == LEVELS_MAX then error('pcall: too many levels', 2) end
    levels = levels + 1
    return leave(pcall(...))
end
local protected = base.pcall

local function handle(handler, ok, ...)
    if ok then return ok, ... end
    return false, select(2, protected(handler, ...))
end

-- The handler runs after the failed call. Inside it, Lua would not count the instructions of the handler.
function base.xpcall(called, handler)
    return handle(handler, protected(called))
end

local insert, remove, concat = base.table.insert, base.table.remove, base.table.concat

function base.table.insert(list, ...)
    if type(list) == 'table' and select('#', ...) == 2 then
        local at, size = tonumber((...)), #list
        -- The comparisons are written so that NaN is outside.
        if at and not (at >= 1 and at <= size + 1) then
            error('table.insert: position out of bounds', 2)
        end
        if at and size - at > SHORT then spend(size - at) end
    end
    return insert(list, ...)
end

function base.table.remove(list, ...)
    if type(list) == 'table' then
        local at, size = tonumber((...)), #list
        if at and not (at >= 1 and at < size + 1) then return end
        if at and size - at > SHORT then spend(size - at) end
    end
    return remove(list, ...)
end

function base.table.concat(list, ...)
    if type(list) == 'table' and #list > SHORT then spend(#list) end
    return concat(list, ...)
end

local function less(a, b) return a < b end

-- Merges runs of equal length, from short runs to long ones. The order of equal elements stays.
function base.table.sort(list, before)
    before = before or less
    local size, from, to, width = #list, {}, {}, 1
    for i = 1, size do from[i] = list[i] end
    while width < size do
        for left = 1, size, 2 * width do
            local middle, stop = min(left + width, size + 1), min(left + 2 * width, size + 1)
            local i, j = left, middle
            for k = left, stop - 1 do
                if i < middle and (j >= stop or not before(from[j], from[i])) then
                    to[k] = from[i]
                    i = i + 1
                else
                    to[k] = from[j]
                    j = j + 1
                end
            end
        end
        from, to, width = to, from, 2 * width
    end
    for i = 1, size do list[i] = from[i] end
end

function base.string.gmatch(text, pattern)
    local from = 1
    local function found(next, ...)
        from = next
        return ...
    end
    return function()
        if from then return found(search(text, pattern, from)) end
    end
end
base.string.gfind = base.string.gmatch

local format = base.string.format

-- In Karmada's engine, `%s` takes any value.
function base.string.format(text, ...)
    local count, values = select('#', ...), {...}
    for i = 1, count do
        local kind = type(values[i])
        if kind ~= 'string' and kind ~= 'number' then values[i] = tostring(values[i]) end
    end
    return format(text, unpack(values, 1, count))
end

-- Begins a call.
return function() levels = 0 end
