--- a filter
SELECT id FROM people WHERE ssn = '1' -- ssn: WHERE
--- a sort
SELECT id FROM people ORDER BY ssn -- ssn: ORDER BY
--- a sort by its place
SELECT ssn FROM people ORDER BY 1 -- ssn: ORDER BY
--- a sort by its alias
SELECT ssn AS s FROM people ORDER BY s -- ssn: ORDER BY
--- a group
SELECT count(*) FROM people GROUP BY ssn -- ssn: GROUP BY
--- a group by its place
SELECT ssn, count(*) FROM people GROUP BY 1 -- ssn: GROUP BY
--- a filter of groups
SELECT city FROM people GROUP BY city HAVING max(ssn) > '1' -- ssn: HAVING
--- a join
SELECT a.id FROM people a JOIN people b ON a.ssn = b.ssn -- ssn: JOIN
--- a join by USING
SELECT a.id FROM people a JOIN people b USING (ssn) -- ssn: JOIN
--- a natural join
SELECT 1 FROM people NATURAL JOIN (SELECT ssn FROM people) p -- ssn: JOIN
--- an aggregate
SELECT max(ssn) FROM people -- ssn: an expression
--- a count of values
SELECT count(DISTINCT ssn) FROM people -- ssn: an expression
--- a function
SELECT substring(ssn, 1, 1) FROM people -- ssn: an expression
--- a comparison with nothing
SELECT ssn IS NULL FROM people -- ssn: an expression
--- a struct of it
SELECT struct(ssn) FROM people -- ssn: an expression
--- DISTINCT
SELECT DISTINCT ssn FROM people -- ssn: DISTINCT
--- DISTINCT of a star
SELECT DISTINCT * FROM people -- ssn: DISTINCT
--- a union
SELECT ssn FROM people UNION ALL SELECT city FROM people -- ssn: UNION
--- an intersection
SELECT city FROM people INTERSECT SELECT ssn FROM people -- ssn: INTERSECT
--- a window
SELECT rank() OVER (ORDER BY ssn) FROM people -- ssn: ORDER BY
--- a named window
SELECT rank() OVER w FROM people WINDOW w AS (PARTITION BY ssn) -- ssn: a window
--- IN of a query
SELECT id FROM people WHERE city IN (SELECT ssn FROM people) -- ssn: IN
--- a scalar subquery
SELECT (SELECT ssn FROM people LIMIT 1) AS x -- ssn: an expression
--- EXISTS that compares it
SELECT id FROM people p WHERE EXISTS (SELECT 1 FROM people q WHERE q.id = p.id AND q.ssn = '1') -- ssn: WHERE
--- a correlated subquery
SELECT id FROM people p WHERE 1 = (SELECT count(*) FROM people q WHERE q.city = p.ssn) -- ssn: WHERE
--- through a CTE
WITH x AS (SELECT id, ssn AS s FROM people) SELECT id FROM x WHERE s = '1' -- ssn: WHERE
--- through names of a CTE's columns
WITH x(a, b) AS (SELECT id, ssn FROM people) SELECT a FROM x ORDER BY b -- ssn: ORDER BY
--- through a star of a star
SELECT max(ssn) FROM (SELECT * FROM (SELECT * FROM people) a) b -- ssn: an expression
--- through names of a subquery's columns
SELECT a FROM (SELECT id, ssn FROM people) q(a, b) WHERE b > '1' -- ssn: WHERE
--- in a recursion
WITH RECURSIVE x AS (SELECT ssn FROM people UNION ALL SELECT ssn FROM x) SELECT * FROM x -- ssn: UNION
--- a CASE
SELECT CASE WHEN id = 1 THEN ssn END FROM people -- ssn: an expression
--- a CAST
SELECT CAST(ssn AS INT) FROM people -- ssn: an expression
--- in other letters
SELECT id FROM people WHERE `SSN` = '1' -- ssn: WHERE
--- by its table
SELECT id FROM people WHERE hr.people.ssn = '1' -- ssn: WHERE
--- a field of a struct
SELECT home.street || '' FROM people -- home.street: an expression
--- a struct of which a field is masked
SELECT home = home FROM people -- home: an expression
--- a field by its key
SELECT home['street'] FROM people -- home: an expression
--- a field through a CTE
WITH x AS (SELECT home FROM people) SELECT id FROM people, x WHERE x.home.street = 'a' -- home.street: WHERE
--- FILTER
SELECT count(*) FILTER (WHERE ssn = '1') FROM people -- ssn: WHERE
--- an alias of the list itself
SELECT ssn AS s, s || 'x' AS t FROM people -- ssn: an expression
