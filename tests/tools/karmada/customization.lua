-- The scripts of the last ResourceInterpreterCustomization of WorkloadDeployment, which native interpretation replaces.
-- Karmada takes one script per operation. This file contains all scripts. The name of its operation precedes each one.

-- retention
function Retain(desiredObj, observedObj)
  if observedObj.spec ~= nil and observedObj.spec.replicas ~= nil then
    if desiredObj.spec == nil then
      desiredObj.spec = {}
    end
    desiredObj.spec.replicas = observedObj.spec.replicas
  end
  return desiredObj
end

-- statusReflection
function ReflectStatus(observedObj)
  if observedObj.status == nil then
    return nil
  end
  return observedObj.status
end

-- statusAggregation
function AggregateStatus(desiredObj, statusItems)
  if statusItems == nil or #statusItems == 0 then
    return desiredObj
  end
  if statusItems[1].status ~= nil then
    desiredObj.status = statusItems[1].status
  end
  return desiredObj
end

-- dependencyInterpretation
function GetDependencies(desiredObj)
  local dependencies = {}
  local annotations = desiredObj.metadata.annotations
  if annotations == nil then
    return dependencies
  end
  local expected = annotations["compute.datumapis.com/expected-referenced-data"]
  if expected == nil or expected == "" then
    return dependencies
  end
  local seen = {}
  for token in string.gmatch(expected, '"([^"]*)"') do
    local kind, name = string.match(token, "^([^/]+)/([^/]+)$")
    if (kind == "ConfigMap" or kind == "Secret") and not seen[token] then
      seen[token] = true
      dependencies[#dependencies + 1] = {
        apiVersion = "v1",
        kind = kind,
        name = name,
        namespace = desiredObj.metadata.namespace,
      }
    end
  end
  return dependencies
end
