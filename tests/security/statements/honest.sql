--- a star
SELECT * FROM orders ORDER BY id
=> [[1, "Oslo", 10.5, "2026-01-01"], [2, "Bergen", 20.0, "2026-01-02"], [3, "Oslo", 4.5, "2026-02-01"], [4, null, null, "2026-02-02"]]
--- a star of a masked table
SELECT * FROM people ORDER BY id
=> [[1, "Oslo", "••••", {"street": "••••", "zip": 150}], [2, "Turku", "••••", {"street": "••••", "zip": 20100}]]
--- a whole name
SELECT id FROM default.orders WHERE city = 'Oslo' ORDER BY id
=> [[1], [3]]
--- columns by the whole name
SELECT default.orders.id FROM default.orders WHERE orders.id < 2
=> [[1]]
--- a table in backticks
SELECT `id` FROM `orders` WHERE `city` = 'Bergen'
=> [[2]]
--- groups
SELECT city, count(*) AS n, sum(amount) AS total FROM orders WHERE city IS NOT NULL GROUP BY city ORDER BY total DESC
=> [["Bergen", 1, 20.0], ["Oslo", 2, 15.0]]
--- a filter of groups by an alias
SELECT city, count(*) AS n FROM orders GROUP BY city HAVING n > 1
=> [["Oslo", 2]]
--- groups by their places
SELECT city, max(id) FROM orders WHERE id < 4 GROUP BY 1 ORDER BY 1
=> [["Bergen", 2], ["Oslo", 3]]
--- DISTINCT
SELECT DISTINCT city FROM orders ORDER BY city
=> [[null], ["Bergen"], ["Oslo"]]
--- a join
SELECT o.id, p.city FROM orders o JOIN people p ON o.id = p.id ORDER BY o.id
=> [[1, "Oslo"], [2, "Turku"]]
--- a join by USING
SELECT id, orders.city, people.city FROM orders JOIN people USING (id) ORDER BY id
=> [[1, "Oslo", "Oslo"], [2, "Bergen", "Turku"]]
--- a left join
SELECT o.id, p.id FROM orders o LEFT JOIN people p ON o.id = p.id ORDER BY o.id
=> [[1, 1], [2, 2], [3, null], [4, null]]
--- an anti join
SELECT id FROM orders LEFT ANTI JOIN people ON orders.id = people.id ORDER BY id
=> [[3], [4]]
--- a masked column beside a join of others
SELECT p.ssn, o.amount FROM people p JOIN orders o ON p.id = o.id ORDER BY o.id
=> [["••••", 10.5], ["••••", 20.0]]
--- a masked column through a CTE
WITH x AS (SELECT id, ssn AS number FROM people) SELECT id, number FROM x ORDER BY id
=> [[1, "••••"], [2, "••••"]]
--- a field beside a masked one
SELECT id, home.zip FROM people WHERE home.zip > 1000
=> [[2, 20100]]
--- a masked field
SELECT home.street FROM people WHERE id = 1
=> [["••••"]]
--- CTEs on CTEs
WITH a AS (SELECT city, amount FROM orders), b AS (SELECT city, sum(amount) AS s FROM a GROUP BY city) SELECT count(*) FROM b
=> [[3]]
--- a CTE that has a table's name
WITH people AS (SELECT id FROM orders WHERE id > 3) SELECT * FROM people
=> [[4]]
--- a subquery
SELECT max(n) AS n FROM (SELECT city, count(*) AS n FROM orders GROUP BY city) c
=> [[2]]
--- a scalar subquery
SELECT id FROM orders WHERE amount = (SELECT max(amount) FROM orders)
=> [[2]]
--- IN of a query
SELECT id FROM orders WHERE id IN (SELECT id FROM people) ORDER BY id
=> [[1], [2]]
--- EXISTS with a star
SELECT id FROM orders o WHERE NOT EXISTS (SELECT * FROM people p WHERE p.id = o.id) ORDER BY id
=> [[3], [4]]
--- a union
SELECT id FROM orders WHERE id = 1 UNION ALL SELECT id FROM people ORDER BY id
=> [[1], [1], [2]]
--- EXCEPT
SELECT id FROM orders EXCEPT SELECT id FROM people ORDER BY id
=> [[3], [4]]
--- a window
SELECT id, row_number() OVER (PARTITION BY city ORDER BY id) AS n FROM orders WHERE city = 'Oslo' ORDER BY id
=> [[1, 1], [3, 2]]
--- a running sum
SELECT id, sum(amount) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM orders WHERE id < 4 ORDER BY id
=> [[1, 10.5], [2, 30.5], [3, 35.0]]
--- CASE and NULLs
SELECT id, CASE WHEN amount > 10 THEN 'much' WHEN amount IS NULL THEN 'none' ELSE 'little' END AS a, coalesce(city, '-') AS c FROM orders ORDER BY id
=> [[1, "much", "Oslo"], [2, "much", "Bergen"], [3, "little", "Oslo"], [4, "none", "-"]]
--- texts
SELECT upper(city), length(city), substring(city, 1, 2), city || '!', concat(city, '-', id), replace(city, 's', 'z') FROM orders WHERE id = 1
=> [["OSLO", 4, "Os", "Oslo!", "Oslo-1", "Ozlo"]]
--- quotes of every kind
SELECT 'it\'s', "double", 'semi;colon', '-- no comment', 'back`tick' FROM orders WHERE id = 1
=> [["it's", "double", "semi;colon", "-- no comment", "back`tick"]]
--- patterns
SELECT id FROM orders WHERE city LIKE 'O%' AND city RLIKE 'sl' AND city NOT LIKE '%x' ORDER BY id DESC
=> [[3], [1]]
--- numbers
SELECT abs(-2), round(2.345, 1) AS r, 7 % 4, greatest(1, 3), CAST('12' AS BIGINT) AS c FROM orders WHERE id = 1
=> [[2, "2.3", 3, 3, 12]]
--- days
SELECT year(CAST(day AS DATE)) AS y, month(CAST(day AS DATE)) AS m, datediff(CAST('2026-01-03' AS DATE), CAST(day AS DATE)) AS d FROM orders WHERE id = 1
=> [[2026, 1, 2]]
--- arrays
SELECT size(array(1, 2, 3)) AS n, array_contains(array(1, 2), 2) AS c FROM orders WHERE id = 1
=> [[3, true]]
--- a comment
SELECT id /* of orders */ FROM orders -- all of them
WHERE id = 1
=> [[1]]
--- a limit
SELECT id FROM orders ORDER BY id LIMIT 2 OFFSET 1
=> [[2], [3]]
--- nothing of a table
SELECT 1 AS one, 'x' AS x
=> [[1, "x"]]
--- a recursion that ends
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n) FROM t
=> [[15]]
