-- Spark, in SQL: one SELECT over views that are named after what is read. :dataid is the day.
SELECT customer, :dataid AS day, count(*) AS orders, sum(amount) AS amount
FROM orders
GROUP BY customer
ORDER BY customer
