-- One row for each carrier, over all days of the month (:dataid is the month).
SELECT carrier,
       :dataid                                             AS month,
       count(*)                                            AS flights,
       round(avg(dep_delay), 2)                            AS mean_delay,
       count_if(is_rough)                                  AS rough_flights,
       round(avg(CASE WHEN is_rough THEN dep_delay END), 2) AS mean_delay_when_rough
FROM flights_weather
GROUP BY carrier
ORDER BY carrier
