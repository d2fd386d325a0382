-- Spark, in SQL: one SELECT over views that are named after the inputs.
-- A LEFT JOIN, because some hours have no weather report; their flights must not get lost.
SELECT f.*, w.temp, w.wind_speed, w.precip, w.visib, coalesce(w.precip > 0 OR w.visib < 5, false) AS is_rough
FROM flights f
LEFT JOIN weather_raw w ON w.origin = f.origin AND w.time_hour = f.time_hour
