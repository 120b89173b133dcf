-- The model of each turn, which may differ by role.
ALTER TABLE planning_turn ADD COLUMN model TEXT NOT NULL DEFAULT '';

-- How many agents the plan deserves, and why; without a number, as many as the tier says.
ALTER TABLE run ADD COLUMN advised_agents INTEGER;
ALTER TABLE run ADD COLUMN advice TEXT NOT NULL DEFAULT '';

-- What the name of a tier said until now is a field of it.
UPDATE run SET settings = replace(settings, '"tier":{"name":"quick",', '"tier":{"name":"quick","decompose":false,"review":"none","model":"small","task_models":false,"questions":0,');
UPDATE run SET settings = replace(settings, '"tier":{"name":"scout",', '"tier":{"name":"scout","review":"none","model":"small","task_models":false,"questions":0,"question_gates":true,');
UPDATE run SET settings = replace(settings, '"tier":{"name":"architect",', '"tier":{"name":"architect","review":"human","model":"large","fallback":"medium","questions":null,');
