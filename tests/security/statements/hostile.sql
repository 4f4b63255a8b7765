--- a file by its path
SELECT * FROM 'CANARY_FILE'
--- a file in backticks
SELECT * FROM `CANARY_FILE`
--- Spark's path relation, csv
SELECT * FROM csv.`CANARY_FILE`
--- Spark's path relation, text
SELECT * FROM text.`CANARY_FILE`
--- Spark's path relation, binaryFile
SELECT * FROM binaryFile.`CANARY_FILE`
--- Spark's path relation, parquet of a directory
SELECT * FROM parquet.`/`
--- read_csv
SELECT * FROM read_csv('CANARY_FILE')
--- read_text
SELECT content FROM read_text('CANARY_FILE')
--- read_blob in a subquery
SELECT (SELECT content FROM read_blob('CANARY_FILE')) AS x FROM orders
--- read_json_auto
SELECT * FROM read_json_auto('CANARY_FILE')
--- parquet_scan
SELECT * FROM parquet_scan('/tmp/*.parquet')
--- glob
SELECT * FROM glob('/etc/*')
--- read_files of Spark
SELECT * FROM read_files('CANARY_FILE')
--- a file in a CTE
WITH x AS (SELECT * FROM read_csv('CANARY_FILE')) SELECT * FROM x
--- a file in the second branch of a union
SELECT city FROM orders UNION ALL SELECT content FROM read_text('CANARY_FILE')
--- a file in EXISTS
SELECT id FROM orders WHERE EXISTS (SELECT * FROM read_text('CANARY_FILE'))
--- a file in a lateral join
SELECT * FROM orders, LATERAL (SELECT * FROM read_text('CANARY_FILE')) t
--- the environment
SELECT getenv('SLUICE_CANARY')
--- a setting of the engine
SELECT current_setting('secret_directory')
--- settings as a table function
SELECT * FROM duckdb_settings()
--- secrets as a table function
SELECT * FROM duckdb_secrets()
--- a pragma as a table function
SELECT * FROM pragma_database_list()
--- the catalog
SELECT * FROM information_schema.tables
--- the catalog of PostgreSQL's kind
SELECT * FROM pg_catalog.pg_tables
--- DuckDB's own catalog
SELECT * FROM sqlite_master
--- Spark's system catalog
SELECT * FROM system.session.variables
--- Java by reflect
SELECT reflect('java.lang.System', 'getenv', 'SLUICE_CANARY')
--- Java by java_method
SELECT java_method('java.lang.System', 'getenv', 'SLUICE_CANARY')
--- Java by try_reflect
SELECT try_reflect('java.lang.Runtime', 'getRuntime')
--- names of files
SELECT input_file_name() FROM orders
--- who the process is
SELECT current_user()
--- a version
SELECT version()
--- a generator
SELECT explode(array(1, 2))
--- a lateral view
SELECT * FROM orders LATERAL VIEW explode(array(1)) t AS q
--- a lambda
SELECT transform(array(1), x -> reflect('java.lang.System', 'exit', 1))
--- a UDF by its name
SELECT my_udf(city) FROM orders
--- a function of a schema
SELECT default.my_udf(city) FROM orders
--- xml with external entities
SELECT xpath('<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', 'a')
--- SET
SET spark.sql.warehouse.dir = '/tmp'
--- SET of a variable of the engine
SET enable_external_access = true
--- RESET
RESET ALL
--- ADD JAR
ADD JAR '/tmp/evil.jar'
--- CREATE FUNCTION
CREATE FUNCTION f AS 'evil.Udf' USING JAR '/tmp/evil.jar'
--- COPY to a file
COPY (SELECT * FROM orders) TO '/tmp/out.csv'
--- COPY from a program
COPY orders FROM 'CANARY_FILE'
--- ATTACH
ATTACH 'CANARY_FILE' AS other
--- PRAGMA
PRAGMA database_list
--- INSTALL
INSTALL httpfs
--- LOAD
LOAD 'CANARY_FILE'
--- CALL
CALL pragma_version()
--- EXPLAIN, which shows files
EXPLAIN SELECT * FROM orders
--- DESCRIBE
DESCRIBE orders
--- SHOW
SHOW TABLES
--- USE
USE payroll
--- CACHE
CACHE TABLE x AS SELECT * FROM payroll
--- INSERT
INSERT INTO orders VALUES (9, 'x', 1, 'y')
--- UPDATE
UPDATE orders SET city = 'x'
--- DELETE
DELETE FROM orders
--- MERGE
MERGE INTO orders USING payroll s ON orders.id = s.id WHEN MATCHED THEN UPDATE SET *
--- DROP
DROP TABLE orders
--- two statements
SELECT 1; SELECT * FROM payroll
--- a statement behind a comment's end
SELECT 1 /* x */; SET a = 1 -- */
--- a table hidden behind a comment
SELECT * FROM /* orders */ payroll
--- a hint that names a table
SELECT /*+ BROADCAST(payroll) */ * FROM orders
--- the table of another namespace
SELECT * FROM payroll
--- the same by its whole name
SELECT * FROM secret.payroll
--- the same in other letters
SELECT * FROM `PayRoll`
--- the same in a join
SELECT * FROM orders o JOIN payroll p ON o.id = p.id
--- the same in IN
SELECT id FROM orders WHERE id IN (SELECT id FROM payroll)
--- the same in a scalar subquery
SELECT (SELECT max(salary) FROM payroll) AS x
--- the same in ORDER BY
SELECT id FROM orders ORDER BY (SELECT max(salary) FROM payroll)
--- the same in ON
SELECT * FROM orders a JOIN orders b ON a.id = (SELECT max(salary) FROM payroll)
--- the same where a CTE elsewhere has its name
SELECT * FROM (WITH payroll AS (SELECT 1 AS x) SELECT x FROM payroll) y, payroll
--- the same in a CTE that is named after it
WITH payroll AS (SELECT * FROM payroll) SELECT * FROM payroll
--- the same by TABLE
TABLE payroll
--- the same by FROM first
FROM payroll
--- the same in three parts
SELECT * FROM spark_catalog.secret.payroll
--- an older version of it
SELECT * FROM payroll VERSION AS OF 1
--- a part of a table
SELECT * FROM orders TABLESAMPLE (10 PERCENT)
--- a name of ours
SELECT * FROM _sluice_0
--- an alias of ours
SELECT _sluice_1.id FROM orders AS _sluice_1
--- a parameter
SELECT * FROM orders WHERE id = ?
--- a named parameter
SELECT * FROM orders WHERE city = :city
--- a variable of Spark
SELECT '${env:SLUICE_CANARY}', ${env:SLUICE_CANARY}
--- IDENTIFIER
SELECT * FROM IDENTIFIER('pay' || 'roll')
--- a unit of time that is more than one
SELECT date_trunc('day'', (SELECT content FROM read_text(''CANARY_FILE'')), ''', day) FROM orders
--- an interval that is more than one
SELECT INTERVAL '1 day) || getenv(''SLUICE_CANARY'') || (' FROM orders
--- a text that ends the engine's quotes
SELECT 'a\' , getenv(\'SLUICE_CANARY\') --' , payroll.salary FROM orders
--- a name that ends the engine's quotes
SELECT `id" , getenv('SLUICE_CANARY') AS "b` FROM orders
--- a type that is none
SELECT CAST(city AS `evil`.`type`) FROM orders
--- DISTINCT ON
SELECT DISTINCT ON (city) city FROM orders
--- a pivot
SELECT * FROM orders PIVOT (sum(amount) FOR city IN ('Oslo'))
--- a script
SELECT TRANSFORM (id) USING 'cat CANARY_FILE' FROM orders
--- a row as a column
SELECT orders FROM orders
--- all columns as an argument
SELECT struct(*) FROM orders
--- LIMIT by a query
SELECT id FROM orders LIMIT (SELECT max(salary) FROM payroll)
--- nothing
;
--- no statement at all
CANARY_FILE
--- 10,000 parentheses
REPEAT 10000 (
--- 10,000 signs
REPEAT 10000 ~
--- a SELECT of nothing
SELECT -- id FROM orders
--- 10,000 nested calls
REPEAT 10000 abs(
--- stars of stars
WITH a AS (SELECT * FROM orders), b AS (SELECT a.*, a.*, a.*, a.*, a.*, a.*, a.*, a.* FROM a), c AS (SELECT b.*, b.*, b.*, b.*, b.*, b.*, b.*, b.* FROM b), d AS (SELECT c.*, c.*, c.*, c.*, c.*, c.*, c.*, c.* FROM c), e AS (SELECT d.*, d.*, d.*, d.*, d.*, d.*, d.*, d.* FROM d) SELECT * FROM e
--- aliases of aliases
SELECT 1 AS a, a + a + a + a AS b, b + b + b + b AS c, c + c + c + c AS d, d + d + d + d AS e, e + e + e + e AS f, f + f + f + f AS g, g + g + g + g AS h, h + h + h + h AS i, i + i + i + i AS j
